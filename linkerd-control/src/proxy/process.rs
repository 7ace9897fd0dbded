use super::admin;
use super::error::ProxyError;
use super::known;
use super::log::OutputLog;
use crate::lookups::LookupKind;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::net::SocketAddr;
use std::process::ExitStatus;
use std::time::Duration;
use std::{fmt, io};
use tokio::process::Child;
use tokio::time::{Instant, sleep};

/// A running proxy. Dropping it kills it; [`stop`](Self::stop) lets it finish its requests.
pub struct ProxyProcess {
    /// The address of its outbound listener.
    pub outbound: SocketAddr,
    /// The address of its inbound listener; `0.0.0.0:0` if none was set.
    pub inbound: SocketAddr,
    /// The address of its admin server.
    pub admin: SocketAddr,
    pub(super) child: Child,
    pub(super) log: OutputLog,
}

/// The end of a proxy.
#[derive(Debug)]
pub struct ProxyExit {
    /// The exit status.
    pub status: ExitStatus,
    /// The whole output.
    pub output: String,
}

impl ProxyProcess {
    /// Waits until `/ready` is 200.
    pub async fn wait_until_ready(&self, within: Duration) -> Result<(), ProxyError> {
        let is_ready = async || Ok(self.get("/ready").await?.0 == 200);
        self.wait_until("readiness", within, is_ready).await
    }

    /// Waits until `/state` of the admin server is as a test wants it: that a change of the control plane has reached the
    /// proxy, for example.
    pub async fn wait_for_state(
        &self,
        wanted: &str,
        within: Duration,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> Result<(), ProxyError> {
        let check = async || Ok(is_wanted(&self.state().await?));
        self.wait_until(wanted, within, check).await
    }

    /// Waits until the proxy knows exactly these endpoints of a destination that it has looked up, such as
    /// `web.ns.svc.cluster.local:80`: a change of them has reached it.
    pub async fn wait_for_endpoints(
        &self,
        destination: &str,
        endpoints: &[SocketAddr],
        within: Duration,
    ) -> Result<(), ProxyError> {
        let mut wanted: Vec<_> = endpoints.iter().map(ToString::to_string).collect();
        wanted.sort();
        let wanted = Some(wanted);
        let last = Mutex::new(None);
        let has = |state: &Value| {
            let now = known::endpoints(state, destination);
            let is_wanted = now == wanted;
            *last.lock() = now;
            is_wanted
        };
        let text = format!("endpoints {endpoints:?} of {destination}");
        let mut waited = self.wait_for_state(&text, within, has).await;
        if let Err(ProxyError::Late { wanted, .. }) = &mut waited {
            *wanted += &match last.into_inner() {
                Some(known) => format!(" (it knows {known:?})"),
                None => " (it knows none)".to_owned(),
            };
        }
        waited
    }

    /// Makes a change, and waits until the proxy has applied an update of this look-up: `web.ns.svc.cluster.local:80` for a
    /// destination, the authority or address of the request for a policy or profile, `:8080` for a server.
    ///
    /// The proxy must have its first answer, as it does after a request: that one would count, too.
    pub async fn wait_for_change(
        &self,
        kind: LookupKind,
        target: &str,
        within: Duration,
        change: impl FnOnce(),
    ) -> Result<(), ProxyError> {
        let state = self.state().await?;
        let Some(before) = known::updates(&state, kind, target) else {
            return Err(ProxyError::NotLookedUp {
                kind,
                target: target.to_owned(),
                known: known::targets(&state, kind),
            });
        };
        change();
        let has_more = |state: &Value| known::updates(state, kind, target) > Some(before);
        let text = format!("update of {kind:?} {target:?}");
        self.wait_for_state(&text, within, has_more).await
    }

    /// The state of the proxy: `/state` of the admin server.
    pub async fn state(&self) -> Result<Value, ProxyError> {
        let (status, body) = self.get(STATE).await?;
        let state = serde_json::from_str(&body).ok().filter(|_| status == 200);
        state.ok_or_else(|| self.unanswered(STATE, format!("status {status}, and no JSON")))
    }

    /// Gets a path of the admin server: the status and the body.
    pub async fn get(&self, path: &str) -> Result<(u16, String), ProxyError> {
        let answer = admin::get(self.admin, path).await;
        answer.map_err(|reason| self.unanswered(path, reason))
    }

    /// Waits for a line of the log that contains a text, and returns it.
    pub async fn wait_for_log(&self, text: &str, within: Duration) -> Result<String, ProxyError> {
        self.log.wait_for(text, within).await
    }

    /// The output so far.
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// Pauses or resumes reading its output.
    pub fn pause_log(&self, paused: bool) {
        self.log.pause(paused);
    }

    /// The process id; `None` after its end.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// The exit status; `None` while it runs.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Sends SIGTERM: the proxy finishes its requests and ends.
    pub fn terminate(&self) -> Result<(), ProxyError> {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        match pid.and_then(Pid::from_raw) {
            Some(pid) => Ok(kill_process(pid, Signal::TERM).map_err(io::Error::from)?),
            // It has ended.
            None => Ok(()),
        }
    }

    /// Waits until the proxy ends.
    pub async fn wait(&mut self, within: Duration) -> Result<ExitStatus, ProxyError> {
        match tokio::time::timeout(within, self.child.wait()).await {
            Ok(status) => Ok(status?),
            Err(_) => Err(self.late("end", within)),
        }
    }

    /// Sends SIGTERM, and waits until the proxy has ended.
    pub async fn stop(mut self, within: Duration) -> Result<ProxyExit, ProxyError> {
        self.terminate()?;
        let status = self.wait(within).await?;
        let output = self.log.whole().await;
        Ok(ProxyExit { status, output })
    }

    async fn wait_until(
        &self,
        wanted: &str,
        within: Duration,
        check: impl AsyncFn() -> Result<bool, ProxyError>,
    ) -> Result<(), ProxyError> {
        let deadline = Instant::now() + within;
        while !check().await? {
            if Instant::now() >= deadline {
                return Err(self.late(wanted, within));
            }
            sleep(POLL).await;
        }
        Ok(())
    }

    fn unanswered(&self, path: &str, reason: String) -> ProxyError {
        ProxyError::Admin {
            path: path.to_owned(),
            reason,
            output: self.log(),
        }
    }

    fn late(&self, wanted: &str, within: Duration) -> ProxyError {
        ProxyError::Late {
            wanted: wanted.to_owned(),
            within,
            output: self.log(),
        }
    }
}

impl fmt::Debug for ProxyProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyProcess")
            .field("outbound", &self.outbound)
            .field("inbound", &self.inbound)
            .field("admin", &self.admin)
            .finish_non_exhaustive()
    }
}

const STATE: &str = "/state";

/// Short for a test, and long for a proxy that also does other work.
const POLL: Duration = Duration::from_millis(10);
