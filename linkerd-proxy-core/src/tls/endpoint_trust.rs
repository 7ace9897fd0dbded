//! The trust in an endpoint for as long as a connection to it is open.

use super::{CredentialsWatch, PeerChain, PeerTrust};
use crate::{limits, transport::SocketRef};
use parking_lot::Mutex;
use rand::RngExt;
use std::{
    convert::Infallible,
    fmt,
    sync::{Arc, Weak},
    time::{Duration, SystemTime},
};
use tokio::sync::oneshot;

/// Whether the certificates that an endpoint has shown in a handshake are still trusted. Copies share the result.
#[derive(Clone)]
pub struct EndpointTrust(Arc<Watched>);

struct Watched {
    trust: Mutex<PeerTrust>,
    credentials: CredentialsWatch,
    socket: Option<SocketRef>,
    /// Dropped with the connection.
    _open: oneshot::Sender<Infallible>,
    closed: Mutex<Option<oneshot::Receiver<Infallible>>>,
}

impl EndpointTrust {
    /// The trust in an endpoint whose handshake was verified at `now` by the present credentials; `None` if there are none.
    /// `socket` is that of the connection.
    pub(super) fn new(
        peer: PeerChain,
        credentials: &CredentialsWatch,
        now: SystemTime,
        socket: Option<SocketRef>,
    ) -> Option<Self> {
        let trust = PeerTrust::of_server(peer, credentials, now)?;
        let (open, closed) = oneshot::channel();
        Some(Self(Arc::new(Watched {
            trust: Mutex::new(trust),
            credentials: credentials.clone(),
            socket,
            _open: open,
            closed: Mutex::new(Some(closed)),
        })))
    }

    /// Shuts the socket down a while after the trust is lost ([`limits::UNTRUSTED_GRACE`]), whatever the connection does then. Ends
    /// with the connection. Does nothing when called again.
    pub fn enforce(&self) -> impl Future<Output = ()> + use<> {
        let closed = self.0.closed.lock().take();
        let watched = Arc::downgrade(&self.0);
        let credentials = self.0.credentials.clone();
        async move {
            let Some(closed) = closed else { return };
            let enforced = async {
                lost(&watched, credentials).await;
                tokio::time::sleep(limits::UNTRUSTED_GRACE).await;
                if let Some(watched) = watched.upgrade()
                    && let Some(socket) = &watched.socket
                {
                    tracing::debug!("a connection is cut off: its endpoint is trusted no more");
                    socket.shut_down();
                }
            };
            tokio::select! {
                () = enforced => {}
                _ = closed => {}
            }
        }
    }

    /// Whether the endpoint is trusted at `now`. Verifies its certificates if that is due, and else compares a time.
    pub fn holds(&self, now: SystemTime) -> bool {
        self.0.holds(now)
    }

    /// Waits until the endpoint is trusted no more, and then a random time, at most [`SPREAD`], so that not all connections to the
    /// endpoints of a removed anchor end at once. Cancel safe.
    pub async fn lost(&self) {
        lost(&Arc::downgrade(&self.0), self.0.credentials.clone()).await;
    }
}

impl Watched {
    fn holds(&self, now: SystemTime) -> bool {
        let mut trust = self.trust.lock();
        let credentials = &self.credentials;
        !trust.is_due(credentials, now) || trust.verify(credentials, now).is_ok()
    }

    /// The time until a certificate ends; `None` if the certificates have to be verified now.
    fn left(&self, now: SystemTime) -> Option<Duration> {
        let trust = self.trust.lock();
        let is_due = trust.is_due(&self.credentials, now);
        let left = trust.valid_until().duration_since(now);
        (!is_due).then(|| left.unwrap_or_default() + A_MOMENT)
    }
}

/// Waits until an endpoint is trusted no more, or the connection is gone.
async fn lost(watched: &Weak<Watched>, mut credentials: CredentialsWatch) {
    credentials.mark_unchanged();
    while let Some(left) = watched.upgrade().map(|it| it.left(SystemTime::now())) {
        match left {
            None => {
                let wait = rand::rng().random_range(Duration::ZERO..SPREAD);
                tokio::time::sleep(wait).await;
                let holds = watched.upgrade().map(|it| it.holds(SystemTime::now()));
                if holds != Some(true) {
                    return;
                }
            }
            Some(left) => tokio::select! {
                changed = credentials.changed() => if changed.is_err() {
                    // Nothing will change any more.
                    tokio::time::sleep(left).await;
                },
                // Not longer: the clock may be set.
                () = tokio::time::sleep(left.min(LOOK_AGAIN)) => {}
            },
        }
    }
}

impl fmt::Debug for EndpointTrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EndpointTrust")
    }
}

/// The longest wait before a connection ends.
const SPREAD: Duration = Duration::from_secs(5);

/// A certificate is valid in its last second.
const A_MOMENT: Duration = Duration::from_secs(1);

const LOOK_AGAIN: Duration = Duration::from_secs(600);
