use super::error::ProxyError;
use super::log::OutputLog;
use super::process::{ProxyExit, ProxyProcess};
use super::program;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};

/// Options of a proxy. The environment of this process is not passed on.
#[derive(Clone, Debug)]
pub struct ProxyBuilder {
    env: BTreeMap<String, String>,
    args: Vec<String>,
    program: PathBuf,
    uid: Option<u32>,
}

impl ProxyBuilder {
    /// A proxy of the control plane at this address, such as [`Server::addr`](crate::Server::addr).
    ///
    /// It listens on free ports of loopback, and takes requests as an HTTP proxy. The program is `linkerd-proxy`, found by `PATH`.
    pub fn new(control: SocketAddr) -> Self {
        let builder = Self {
            env: BTreeMap::new(),
            args: Vec::new(),
            program: PathBuf::from("linkerd-proxy"),
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
            .env("LINKERD2_PROXY_LOG", "warn,linkerd=info")
    }

    /// Sets the program: a path, or a name to find by `PATH`.
    #[must_use]
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = program.into();
        self
    }

    /// Sets a variable. The log's level must have `linkerd=info`, as the proxy logs the ports that it was given.
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

    /// Runs the proxy as another user, which takes root.
    #[must_use]
    pub fn uid(mut self, uid: u32) -> Self {
        self.uid = Some(uid);
        self
    }

    /// Starts the proxy, and returns when it is ready.
    pub async fn start(self) -> Result<ProxyProcess, ProxyError> {
        let proxy = self.start_unready().await?;
        proxy.wait_until_ready(START).await?;
        Ok(proxy)
    }

    /// Starts the proxy, and returns when it listens.
    pub async fn start_unready(self) -> Result<ProxyProcess, ProxyError> {
        let has_inbound = self.env.contains_key(INBOUND_LISTEN_ADDR);
        let (child, log) = self.spawn()?;
        let addr = async |text: &str| {
            let mut line = log.wait_for(text, START).await;
            if let Err(ProxyError::Late { wanted, .. }) = &mut line {
                *wanted += " (LINKERD2_PROXY_LOG needs linkerd=info)";
            }
            let line = line?;
            addr_after(text, &line).ok_or(ProxyError::Address { line })
        };
        let admin = addr("Admin interface on ").await?;
        let inbound = match has_inbound {
            true => addr("Inbound interface on ").await?,
            false => (Ipv4Addr::UNSPECIFIED, 0).into(),
        };
        let outbound = addr("Outbound interface on ").await?;
        Ok(ProxyProcess {
            outbound,
            inbound,
            admin,
            child,
            log,
        })
    }

    /// Starts the proxy, and waits until it ends by itself.
    pub async fn run(self) -> Result<ProxyExit, ProxyError> {
        let (mut child, log) = self.spawn()?;
        let status = tokio::time::timeout(START, child.wait()).await;
        let Ok(status) = status else {
            return Err(ProxyError::Late {
                wanted: "end".to_owned(),
                within: START,
                output: log.text(),
            });
        };
        let (status, output) = (status?, log.whole().await);
        Ok(ProxyExit { status, output })
    }

    fn spawn(self) -> Result<(Child, OutputLog), ProxyError> {
        let program = program::find(&self.program, path().as_deref());
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
        let mut child = command.spawn().map_err(|error| ProxyError::Program {
            program: self.program.clone(),
            error,
        })?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (stdout, stderr) = stdout.zip(stderr).expect("both streams are pipes");
        Ok((child, OutputLog::read(stdout, stderr)))
    }
}

/// Where a shell finds programs.
#[expect(clippy::disallowed_methods, reason = "that of a test")]
fn path() -> Option<OsString> {
    std::env::var_os("PATH")
}

/// The address that follows a text in a line of the log, which may be JSON.
fn addr_after(text: &str, line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once(text)?;
    let of_addr = |c: char| c.is_ascii_hexdigit() || ".:[]".contains(c);
    let end = rest.find(|c| !of_addr(c)).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

const INBOUND_LISTEN_ADDR: &str = "LINKERD2_PROXY_INBOUND_LISTEN_ADDR";

/// Enough for a busy machine.
const START: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_text_and_json() {
        let listens = "Admin interface on ";
        let v4: SocketAddr = ([127, 0, 0, 1], 4191).into();
        let v6: SocketAddr = (std::net::Ipv6Addr::LOCALHOST, 4191).into();
        for (line, addr) in [
            ("INFO linkerd: Admin interface on 127.0.0.1:4191", Some(v4)),
            (
                r#"{"message":"Admin interface on 127.0.0.1:4191"}"#,
                Some(v4),
            ),
            ("Admin interface on [::1]:4191", Some(v6)),
            ("Admin interface on unix:/run/admin", None),
            ("Admin interface", None),
        ] {
            assert_eq!(addr_after(listens, line), addr, "{line}");
        }
    }
}
