//! Notifications to the service manager that started the process, such as systemd (`Type=notify`): readiness, shutdown, a
//! line of status, and a watchdog. Without `NOTIFY_SOCKET` in the environment nothing is sent.

use crate::{config::Env, proxy::RunningProxy};
use sd_notify::NotifyState;
use std::{
    cell::Cell,
    convert::Infallible,
    ffi::OsStr,
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
    time::Duration,
};
use tokio::time::{MissedTickBehavior, interval, timeout};

/// The service manager of this process.
#[derive(Debug)]
pub struct ServiceManager {
    socket: UnixDatagram,
    /// The watchdog timeout, if there is one: the manager restarts a process without a sign of life for this time.
    watchdog: Option<Duration>,
    stopping: Cell<bool>,
}

impl ServiceManager {
    /// The service manager that the environment names.
    pub fn of(env: &Env) -> Option<Self> {
        let path = env.get("NOTIFY_SOCKET")?;
        match connect(path.as_bytes()) {
            Ok(socket) => Some(Self {
                socket,
                watchdog: sd_notify::watchdog_enabled(),
                stopping: Cell::new(false),
            }),
            Err(error) => {
                let path = path.display();
                tracing::warn!(
                    "the service manager at NOTIFY_SOCKET={path} cannot be notified: {error}"
                );
                None
            }
        }
    }

    /// Reports the proxy's readiness, and from then on that its workers run. It never ends.
    pub fn attend(&self, proxy: &RunningProxy) -> impl Future<Output = Infallible> + use<'_> {
        let readiness = proxy.readiness.clone();
        let is_alive = proxy.liveness_probe();
        let serving = serving(proxy);
        async move {
            if !readiness.is_ready() {
                let pending = readiness.pending().join(", ");
                self.notify(&[NotifyState::Status(&format!("waiting for {pending}"))]);
            }
            readiness.ready().await;
            self.notify(&[NotifyState::Ready, NotifyState::Status(&serving)]);
            match self.watchdog {
                Some(limit) => self.keep_alive(limit, is_alive).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Reports that the proxy shuts down, for at most the grace period.
    pub fn stopping(&self, grace: Duration) {
        self.stopping.set(true);
        let limit = (grace + END).as_micros();
        self.notify(&[
            NotifyState::Stopping,
            NotifyState::Status("shutting down, until open connections have ended"),
            // The grace period is the proxy's setting, which the unit does not know.
            NotifyState::ExtendTimeoutUsec(u32::try_from(limit).unwrap_or(u32::MAX)),
        ]);
    }

    /// Sends a message. A message that a busy manager does not take is lost: the next sign of life makes up for it.
    fn notify(&self, states: &[NotifyState<'_>]) {
        let lines = states.iter().map(|state| format!("{state}\n"));
        match self.socket.send(lines.collect::<String>().as_bytes()) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => tracing::warn!("the service manager cannot be notified: {error}"),
        }
    }

    /// Gives signs of life while all workers answer.
    async fn keep_alive(&self, limit: Duration, is_alive: impl AsyncFn() -> bool) -> Infallible {
        // A sign that is late by half of the limit is still in time.
        let period = (limit / 2).max(SHORTEST);
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // Workers end in a shutdown one by one, within the grace period.
            if self.stopping.get() || timeout(period, is_alive()).await == Ok(true) {
                self.notify(&[NotifyState::Watchdog]);
            } else {
                tracing::warn!(
                    "a worker does not answer: the service manager will restart the proxy"
                );
            }
        }
    }
}

/// The status of a ready proxy: its listeners.
fn serving(proxy: &RunningProxy) -> String {
    let outbound = proxy.outbound.iter().map(|addr| format!("outbound {addr}"));
    let inbound = proxy.inbound.map(|addr| format!("inbound {addr}"));
    let admin = format!("admin {}", proxy.admin);
    let all: Vec<_> = outbound.chain(inbound).chain([admin]).collect();
    format!("ready: {}", all.join(", "))
}

/// A socket to the service manager that never blocks, unlike that of the library.
fn connect(path: &[u8]) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    let addr = match path.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(OsStr::from_bytes(path))?,
    };
    socket.connect_addr(&addr)?;
    Ok(socket)
}

/// Time for the process to end after the grace period.
const END: Duration = Duration::from_secs(5);
/// The shortest period of signs of life. A shorter one would be a mistake in the unit, and a load.
const SHORTEST: Duration = Duration::from_millis(10);
