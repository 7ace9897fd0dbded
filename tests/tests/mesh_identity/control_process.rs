//! The command `control` as a process.

use linkerd_tests::{Admin, Builder, binary, identity, soon, with_identity};
use std::{fs, net::SocketAddr, path::PathBuf, process::Stdio};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

/// The controller as a process, and its files.
pub struct Control {
    pub addr: SocketAddr,
    pub child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    pub files: TempDir,
}

impl Control {
    /// Starts the controller beyond loopback, with TLS and these options; `@name` is a file of the directory.
    pub async fn start(files: TempDir, options: &[&str]) -> Self {
        let mut control = Self::begin_beyond_loopback(files, options);
        control.listening().await;
        control
    }

    /// Starts the controller with an empty mesh file and these options alone.
    pub async fn with(files: TempDir, options: &[&str]) -> Self {
        let mut control = Self::begin(files, "services: []\n", options);
        control.listening().await;
        control
    }

    /// Begins to start the controller as [`start`](Self::start) does.
    pub fn begin_beyond_loopback(files: TempDir, options: &[&str]) -> Self {
        let names = [identity("other"), identity("control")];
        let mut all = vec!["--listen", "0.0.0.0:0"];
        for name in &names {
            all.extend(["--tls-name", name]);
        }
        all.extend(options);
        Self::begin(files, "services: []\n", &all)
    }

    /// Begins to start the controller with a mesh file and these options alone.
    pub fn begin(files: TempDir, mesh: &str, options: &[&str]) -> Self {
        fs::write(files.path().join("mesh.yaml"), mesh).unwrap();
        let mut child = Command::new(binary())
            .args(["control", "--mesh"])
            .arg(files.path().join("mesh.yaml"))
            .args(arguments(&files, options))
            .env_clear()
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self {
            addr: ([127, 0, 0, 1], 0).into(),
            lines: BufReader::new(child.stdout.take().unwrap()).lines(),
            child,
            files,
        }
    }

    /// Waits until the controller listens.
    pub async fn listening(&mut self) {
        let addr = self.addr_after("Controller listens on ").await;
        self.addr.set_port(addr.port());
    }

    /// Waits until the admin server listens.
    pub async fn admin(&mut self) -> Admin {
        let addr = self.addr_after("Admin server of the controller listens on ");
        Admin { addr: addr.await }
    }

    async fn addr_after(&mut self, text: &str) -> SocketAddr {
        let line = self.line(text).await;
        let (_, addr) = line.split_once(text).unwrap();
        addr.split(' ').next().unwrap().parse().unwrap()
    }

    /// Waits for a log line that contains the text.
    pub async fn line(&mut self, text: &str) -> String {
        let found = async {
            loop {
                let line = self.lines.next_line().await.unwrap().expect("it runs");
                if line.contains(text) {
                    return line;
                }
            }
        };
        soon(found).await
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.files.path().join(name), text).unwrap();
    }

    /// A proxy `name` that trusts the certificates in `anchors`.
    pub fn proxy(&self, name: &str, anchors: &str) -> Builder {
        let anchors = fs::read_to_string(self.files.path().join(anchors)).unwrap();
        with_identity(self.addr, &anchors, name, self.files.path())
            .env("LINKERD_PROXY_INBOUND_ADMIT_LOOPBACK", "0")
    }
}

/// The arguments, with the paths of the files.
pub fn arguments(files: &TempDir, options: &[&str]) -> Vec<PathBuf> {
    let named = |option: &&str| match option.strip_prefix('@') {
        Some(name) => files.path().join(name),
        None => PathBuf::from(option),
    };
    options.iter().map(named).collect()
}
