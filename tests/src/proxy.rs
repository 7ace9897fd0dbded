//! The proxy as a process.

mod binary;
mod log;

pub use binary::binary;

use crate::{Admin, Metrics, SOON, eventually, soon};
use log::Log;
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::process::{Child, Command};

/// Options of a proxy.
#[derive(Clone, Debug)]
pub struct Builder {
    env: BTreeMap<String, String>,
    args: Vec<String>,
    program: Option<PathBuf>,
    uid: Option<u32>,
}

/// A running proxy; dropping it ends it.
pub struct Proxy {
    /// The address of its outbound listener.
    pub outbound: SocketAddr,
    /// The address of its inbound listener; `0.0.0.0:0` if none was set.
    pub inbound: SocketAddr,
    /// The admin server.
    pub admin: Admin,
    child: Child,
    log: Log,
}

/// The end of a proxy.
#[derive(Debug)]
pub struct Exit {
    /// The exit status.
    pub status: ExitStatus,
    /// The whole output.
    pub output: String,
}

impl Builder {
    /// An explicit proxy with the required variables, on free ports of loopback.
    pub fn new(control: SocketAddr) -> Self {
        let builder = Self {
            env: BTreeMap::new(),
            args: Vec::new(),
            program: None,
            uid: None,
        };
        builder
            .env("LINKERD2_PROXY_OUTBOUND_LISTEN_ADDRS", "127.0.0.1:0")
            .env(INBOUND_LISTEN_ADDR, "127.0.0.1:0")
            .env("LINKERD2_PROXY_ADMIN_LISTEN_ADDR", "127.0.0.1:0")
            .env("LINKERD2_PROXY_DESTINATION_SVC_ADDR", control)
            .env("LINKERD2_PROXY_POLICY_SVC_ADDR", control)
            .env("LINKERD2_PROXY_POLICY_WORKLOAD", "ns:pod")
            .env("LINKERD_PROXY_OUTBOUND_EXPLICIT", "1")
            .env("LINKERD_PROXY_OUTBOUND_ALLOW_LOOPBACK", "1")
            .env("LINKERD2_PROXY_LOG", log_directives())
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl ToString) -> Self {
        self.env.insert(name.to_owned(), value.to_string());
        self
    }

    /// Removes a variable.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.env.remove(name);
        self
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    /// Replaces all arguments.
    #[must_use]
    pub fn arguments(mut self, args: &[&str]) -> Self {
        self.args = args.iter().map(|arg| (*arg).to_owned()).collect();
        self
    }

    /// Runs a copy of the binary.
    #[must_use]
    pub fn program(mut self, program: PathBuf) -> Self {
        self.program = Some(program);
        self
    }

    /// Runs the proxy as another user.
    #[must_use]
    pub fn uid(mut self, uid: u32) -> Self {
        self.uid = Some(uid);
        self
    }

    /// Starts the proxy, and returns when it listens and is ready.
    pub async fn start(self) -> Proxy {
        let proxy = self.start_unready().await;
        let admin = proxy.admin;
        eventually(SOON, "the proxy is ready", || async move {
            (admin.get("/ready").await.status == 200).then_some(())
        })
        .await;
        proxy
    }

    /// Starts the proxy, and returns when it listens.
    pub async fn start_unready(self) -> Proxy {
        let has_inbound = self.env.contains_key(INBOUND_LISTEN_ADDR);
        let (child, log) = self.spawn();
        let addr = async |line: &str| {
            let line = log.wait_for(line, SOON).await;
            let addr = line.rsplit(' ').next().and_then(|addr| addr.parse().ok());
            addr.unwrap_or_else(|| panic!("no address in {line:?}"))
        };
        let admin = addr("Admin interface on ").await;
        let inbound = match has_inbound {
            true => addr("Inbound interface on ").await,
            false => (Ipv4Addr::UNSPECIFIED, 0).into(),
        };
        let outbound = addr("Outbound interface on ").await;
        Proxy {
            outbound,
            inbound,
            admin: Admin { addr: admin },
            child,
            log,
        }
    }

    /// Starts the proxy, and waits until it ends by itself.
    pub async fn run(self) -> Exit {
        let (mut child, log) = self.spawn();
        let status = soon(child.wait()).await.unwrap();
        let output = log.whole().await;
        Exit { status, output }
    }

    fn spawn(self) -> (Child, Log) {
        let program = self.program.as_deref().unwrap_or_else(|| binary());
        let mut command = Command::new(program);
        command
            .args(&self.args)
            .env_clear()
            .envs(&self.env)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(uid) = self.uid {
            command.uid(uid).gid(uid).current_dir("/");
        }
        let mut child = command
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {}: {error}", program.display()));
        let log = Log::read(child.stdout.take().unwrap(), child.stderr.take().unwrap());
        (child, log)
    }
}

impl Proxy {
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
        self.log.wait_for(text, SOON).await
    }

    /// The output so far.
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// Pauses or resumes reading its output.
    pub fn pause_log(&self, paused: bool) {
        self.log.pause(paused);
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("it runs")
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
        matches!(self.child.try_wait(), Ok(None))
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
        match tokio::time::timeout(within, self.child.wait()).await {
            Ok(status) => status.unwrap(),
            Err(_) => panic!("the proxy still runs after {within:?}:\n{}", self.log()),
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let ended = self.child.try_wait();
            eprintln!(
                "--- the proxy ({ended:?}), its log:\n{}---",
                self.log.text()
            );
        }
    }
}

const INBOUND_LISTEN_ADDR: &str = "LINKERD2_PROXY_INBOUND_LISTEN_ADDR";

/// The log directives, from the environment if set.
fn log_directives() -> String {
    std::env::var("LINKERD_TESTS_LOG").unwrap_or_else(|_| "warn,linkerd=info".to_owned())
}
