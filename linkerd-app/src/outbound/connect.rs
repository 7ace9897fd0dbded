//! Stage 8: the connection to an endpoint.
//!
//! - **Waits for** the connect timeout at most.
//! - **Fails as** `ConnectRefused`, `ConnectTimeout`, `ConnectFailed`; `Prohibited` and `Loop` before anything is dialled.
//! - **Metrics**: `tcp_*{peer="dst"}`.

use futures::future::LocalBoxFuture;
use linkerd_proxy_core::{
    Error, Reason,
    transport::{ConnectOptions, Io, TransportSeries, connect},
};
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    task::{Context, Poll},
};
use tower_service::Service;

/// What must not be dialled.
///
/// Discovered addresses come from the network: they must reach neither what listens on loopback only, nor this proxy.
#[derive(Clone, Debug)]
pub struct DialGuard {
    /// Whether loopback addresses may be dialled (`LINKERD_PROXY_OUTBOUND_ALLOW_LOOPBACK`).
    pub allow_loopback: bool,
    /// The proxy's own listeners.
    pub listeners: Arc<[SocketAddr]>,
    /// The addresses of the pod (`LINKERD2_PROXY_INBOUND_IPS`): a listener on all addresses is reached by them, too.
    pub local_ips: Arc<[IpAddr]>,
}

impl DialGuard {
    /// Refuses addresses that must not be dialled.
    pub fn check(&self, addr: SocketAddr) -> Result<(), Error> {
        if addr.ip().is_loopback() && !self.allow_loopback {
            return Err(Error::new(Reason::Prohibited).peer(addr));
        }
        let is_own = |own: &SocketAddr| {
            let local = addr.ip().is_loopback() || self.local_ips.contains(&addr.ip());
            let wildcard = own.ip().is_unspecified() && local;
            own.port() == addr.port() && (own.ip() == addr.ip() || wildcard)
        };
        if self.listeners.iter().any(is_own) {
            return Err(Error::new(Reason::Loop).peer(addr));
        }
        Ok(())
    }
}

/// Connects to one endpoint.
#[derive(Clone, Debug)]
pub struct Connect {
    /// Where.
    pub addr: SocketAddr,
    /// How.
    pub options: ConnectOptions,
    /// What must not be dialled.
    pub guard: DialGuard,
    /// What counts the connections.
    pub series: Arc<TransportSeries>,
}

impl Service<()> for Connect {
    type Response = Io;
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<Io, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (): ()) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            this.guard.check(this.addr)?;
            let stream = connect(this.addr, &this.options).await?;
            Ok(Io::new(stream, this.series))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(allow_loopback: bool) -> DialGuard {
        DialGuard {
            allow_loopback,
            listeners: ["127.0.0.1:4140", "0.0.0.0:4191"]
                .map(|addr| addr.parse().unwrap())
                .into(),
            local_ips: ["10.0.0.9".parse().unwrap()].into(),
        }
    }

    fn reason(guard: &DialGuard, addr: &str) -> Option<Reason> {
        let checked = guard.check(addr.parse().unwrap());
        checked.err().map(|error| error.reason())
    }

    #[test]
    fn loopback_is_dialled_only_where_that_is_allowed() {
        assert_eq!(
            reason(&guard(false), "127.0.0.1:80"),
            Some(Reason::Prohibited)
        );
        assert_eq!(reason(&guard(false), "[::1]:80"), Some(Reason::Prohibited));
        assert_eq!(reason(&guard(true), "127.0.0.1:80"), None);
        assert_eq!(reason(&guard(false), "10.0.0.1:80"), None);
    }

    #[test]
    fn the_proxy_never_dials_itself() {
        assert_eq!(reason(&guard(true), "127.0.0.1:4140"), Some(Reason::Loop));
        assert_eq!(reason(&guard(true), "127.0.0.1:4191"), Some(Reason::Loop));
        assert_eq!(reason(&guard(true), "10.0.0.9:4191"), Some(Reason::Loop));
        assert_eq!(reason(&guard(true), "10.0.0.8:4191"), None);
    }
}
