//! The proxy as a process.

mod binary;

pub use binary::binary;

use crate::{Admin, Metrics, SOON, eventually};
use linkerd_control::{ProxyBuilder, ProxyError, ProxyExit, ProxyProcess};
use std::{net::SocketAddr, path::PathBuf, process::ExitStatus, time::Duration};

/// Options of a proxy.
#[derive(Clone, Debug)]
pub struct Builder(ProxyBuilder);

/// A running proxy; dropping it ends it.
pub struct Proxy {
    /// The address of its outbound listener.
    pub outbound: SocketAddr,
    /// The address of its inbound listener; `0.0.0.0:0` if none was set.
    pub inbound: SocketAddr,
    /// The admin server.
    pub admin: Admin,
    process: ProxyProcess,
}

impl Builder {
    /// An explicit proxy with the required variables, on free ports of loopback.
    pub fn new(control: SocketAddr) -> Self {
        let builder = ProxyBuilder::new(control).program(binary());
        Self(builder.env("LINKERD2_PROXY_LOG", log_directives()))
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(self, name: &str, value: impl ToString) -> Self {
        Self(self.0.env(name, value))
    }

    /// Removes a variable.
    #[must_use]
    pub fn without(self, name: &str) -> Self {
        Self(self.0.without(name))
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(self, arg: &str) -> Self {
        Self(self.0.arg(arg))
    }

    /// Replaces all arguments.
    #[must_use]
    pub fn arguments(self, args: &[&str]) -> Self {
        Self(self.0.arguments(args))
    }

    /// Runs a copy of the binary.
    #[must_use]
    pub fn program(self, program: PathBuf) -> Self {
        Self(self.0.program(program))
    }

    /// Runs the proxy as another user.
    #[must_use]
    pub fn uid(self, uid: u32) -> Self {
        Self(self.0.uid(uid))
    }

    /// Starts the proxy, and returns when it listens and is ready.
    pub async fn start(self) -> Proxy {
        Proxy::of(self.0.start().await)
    }

    /// Starts the proxy, and returns when it listens.
    pub async fn start_unready(self) -> Proxy {
        Proxy::of(self.0.start_unready().await)
    }

    /// Starts the proxy, and waits until it ends by itself.
    pub async fn run(self) -> ProxyExit {
        passed(self.0.run().await)
    }
}

impl Proxy {
    fn of(started: Result<ProxyProcess, ProxyError>) -> Self {
        let process = passed(started);
        Self {
            outbound: process.outbound,
            inbound: process.inbound,
            admin: Admin {
                addr: process.admin,
            },
            process,
        }
    }

    /// A builder of a proxy with this control plane.
    pub fn builder(control: SocketAddr) -> Builder {
        Builder::new(control)
    }

    /// Scrapes its metrics.
    pub async fn metrics(&self) -> Metrics {
        self.admin.metrics().await
    }

    /// Waits until a metric has at least this value.
    pub async fn metric_reaches(&self, name: &str, labels: &[(&str, &str)], at_least: f64) {
        let what = format!("{name}{labels:?} of {at_least} or more");
        eventually(SOON, &what, || async {
            let sum = self.metrics().await.sum(name, labels);
            (sum >= at_least).then_some(())
        })
        .await;
    }

    /// Waits for a line of the log that contains a text, and returns it.
    pub async fn wait_for_log(&self, text: &str) -> String {
        passed(self.process.wait_for_log(text, SOON).await)
    }

    /// The output so far.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Pauses or resumes reading its output.
    pub fn pause_log(&self, paused: bool) {
        self.process.pause_log(paused);
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process.pid().expect("it runs")
    }

    /// Sets the soft limit of its open descriptors.
    pub fn set_descriptor_limit(&self, limit: u64) {
        let (pid, limit) = (self.pid().to_string(), format!("--nofile={limit}:"));
        let set = std::process::Command::new("prlimit")
            .args(["--pid", &pid, &limit])
            .status();
        assert!(set.unwrap().success());
    }

    /// Whether the proxy still runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// The resident memory in bytes.
    pub fn rss(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        kilobytes.map_or(0, |kilobytes: u64| kilobytes * 1024)
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends it a signal, such as `HUP`.
    pub fn signal(&self, name: &str) {
        let pid = self.pid().to_string();
        let sent = std::process::Command::new("kill")
            .args([&format!("-{name}"), &pid])
            .status();
        assert!(sent.unwrap().success());
    }

    /// Waits for its end.
    pub async fn wait_exit(&mut self, within: Duration) -> ExitStatus {
        passed(self.process.wait(within).await)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let ended = self.process.try_wait();
            eprintln!(
                "--- the proxy ({ended:?}), its log:\n{}---",
                self.process.log()
            );
        }
    }
}

/// The value, or a panic whose message has the proxy's output.
fn passed<T>(result: Result<T, ProxyError>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

/// The log directives, from the environment if set.
fn log_directives() -> String {
    std::env::var("LINKERD_TESTS_LOG").unwrap_or_else(|_| "warn,linkerd=info".to_owned())
}
