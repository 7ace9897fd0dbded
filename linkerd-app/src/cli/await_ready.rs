//! `await`: waits until the proxy of this pod is ready, and then becomes the application.

mod child;

use crate::runtime;
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    os::unix::process::CommandExt,
    process::{Command, ExitCode},
    thread,
    time::Duration,
};

/// The proxy to wait for, and the command that runs then.
#[derive(Clone, Debug)]
pub struct AwaitOptions {
    /// The port of the proxy's admin server.
    pub port: u16,
    /// The time between two attempts.
    pub backoff: Duration,
    /// The longest time to wait; without one it waits for ever.
    pub timeout: Option<Duration>,
    /// Whether the proxy is shut down when the command has ended.
    pub shutdown: bool,
    /// The reason not to wait, if waiting is disabled.
    pub disabled: Option<String>,
    /// Whether attempts are printed.
    pub verbose: bool,
    /// The command and its arguments; without one, `await` ends when the proxy is ready.
    pub command: Vec<String>,
}

/// Waits, and runs the command: in place of this process, or as its child if the proxy is shut down after it. The exit code is
/// that of the command; 69 if the proxy is not ready in time, 1 if the command cannot be run.
pub fn run(options: &AwaitOptions) -> ExitCode {
    let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
    match &options.disabled {
        Some(reason) => eprintln!("not waiting for the proxy: {reason}"),
        None => {
            if let Err(error) = wait(admin, options) {
                eprintln!("error: {error}");
                return ExitCode::from(EXIT_UNAVAILABLE);
            }
        }
    }
    let [program, args @ ..] = &options.command[..] else {
        return ExitCode::SUCCESS;
    };
    let mut command = Command::new(program);
    command.args(args);
    if !options.shutdown || options.disabled.is_some() {
        let error = command.exec();
        eprintln!("error: {program} cannot be run: {error}");
        return ExitCode::FAILURE;
    }
    let runtime = runtime::local();
    let ended = runtime.and_then(|runtime| runtime.block_on(child::run(command)));
    match request(admin, "POST /shutdown") {
        Ok(200..300) => {}
        Ok(status) => eprintln!(
            "the proxy at {admin} does not shut down: it answers {status}; LINKERD2_PROXY_SHUTDOWN_ENDPOINT_ENABLED=true of the proxy allows it"
        ),
        Err(error) => eprintln!("the proxy at {admin} cannot be shut down: {error}"),
    }
    match ended {
        Ok(status) => ExitCode::from(child::exit_code(status)),
        Err(error) => {
            eprintln!("error: {program} cannot be run: {error}");
            ExitCode::FAILURE
        }
    }
}

#[expect(
    clippy::disallowed_types,
    reason = "it waits for another process, and has no runtime whose clock could be paused"
)]
fn wait(admin: SocketAddr, options: &AwaitOptions) -> Result<(), String> {
    let started = std::time::Instant::now();
    loop {
        let reason = match request(admin, "GET /ready") {
            Ok(200) => return Ok(()),
            Ok(status) => format!("it answers {status}"),
            Err(error) => error.to_string(),
        };
        if options.verbose {
            eprintln!("the proxy at {admin} is not ready: {reason}");
        }
        if options
            .timeout
            .is_some_and(|timeout| started.elapsed() + options.backoff > timeout)
        {
            let within = options.timeout.unwrap_or_default();
            return Err(format!(
                "the proxy at {admin} is not ready within {within:?}: {reason}; its log and http://{admin}/state say why"
            ));
        }
        thread::sleep(options.backoff);
    }
}

/// Makes a request without a body, and returns the status of its answer.
fn request(admin: SocketAddr, line: &str) -> std::io::Result<u16> {
    let mut stream = TcpStream::connect_timeout(&admin, ATTEMPT)?;
    stream.set_read_timeout(Some(ATTEMPT))?;
    let head = format!(
        "{line} HTTP/1.1\r\nhost: {admin}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    // The status is in the first line; the rest is read so that the connection ends well.
    stream.take(ANSWER).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let status = answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    status.ok_or_else(|| std::io::Error::other("its answer is not HTTP"))
}

/// The exit code of a service that is not available (`EX_UNAVAILABLE`), as linkerd-await has it.
const EXIT_UNAVAILABLE: u8 = 69;
/// The time for one attempt.
const ATTEMPT: Duration = Duration::from_secs(5);
/// More than the head of any answer.
const ANSWER: u64 = 64 * 1024;
