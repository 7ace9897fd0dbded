//! Applications on real servers, which tell which requests they have read.

use linkerd_tests::soon;
use parking_lot::Mutex;
use std::{path::Path, process::Stdio, sync::Arc};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

/// A kind of server.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    HttpServer,
    Werkzeug,
    Cheroot,
    Node,
    Netty,
}

impl Kind {
    fn command(self) -> Command {
        let (program, file) = match self {
            // That of Debian, whose packages have the servers.
            Self::HttpServer => ("/usr/bin/python3", "http_server.py"),
            Self::Werkzeug => ("/usr/bin/python3", "werkzeug_server.py"),
            Self::Cheroot => ("/usr/bin/python3", "cheroot_server.py"),
            Self::Node => ("node", "node_server.js"),
            Self::Netty => ("java", "Netty.java"),
        };
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/leniency/servers");
        let mut command = Command::new(program);
        if let Self::Netty = self {
            command.args(["-cp", "/usr/share/java/*"]);
        }
        command.arg(Path::new(folder).join(file));
        command
    }
}

/// A running application.
pub struct Application {
    pub port: u16,
    seen: Arc<Mutex<Vec<String>>>,
    _process: Child,
}

impl Application {
    /// Starts a server; the reason if it is not installed.
    pub async fn start(kind: Kind) -> Result<Self, String> {
        let mut command = kind.command();
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let process = command.stderr(Stdio::piped()).kill_on_drop(true).spawn();
        let mut process = process.map_err(|error| format!("{kind:?}: {error}"))?;
        let stdout = process.stdout.take().expect("it is piped");
        let mut lines = BufReader::new(stdout).lines();
        let first = soon(lines.next_line()).await.unwrap();
        let port = first.as_deref().and_then(|line| line.strip_prefix("port "));
        let Some(port) = port else {
            let output = process.wait_with_output().await.unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("{kind:?}: {first:?} {stderr}"));
        };
        let port = port.parse().unwrap();
        let seen = Arc::default();
        tokio::spawn(note(lines, Arc::clone(&seen)));
        Ok(Self {
            port,
            seen,
            _process: process,
        })
    }

    /// The requests that it has read since the last call.
    pub fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock())
    }
}

async fn note(mut lines: Lines<BufReader<ChildStdout>>, seen: Arc<Mutex<Vec<String>>>) {
    while let Ok(Some(line)) = lines.next_line().await {
        seen.lock().push(line);
    }
}
