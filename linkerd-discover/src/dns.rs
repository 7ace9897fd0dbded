//! Resolution of the control plane itself: from a configured `host:port` to socket addresses.
//!
//! SRV records come first: their targets name pods by their IPs (`10-0-0-1.linkerd-dst…`), so that the proxy balances over
//! the pods of a headless service. Without usable SRV records, A and AAAA records are queried. Answers are renewed when
//! their TTL ends, though not more often than every 5 s. The last good answer stays in use while DNS fails; a name that has
//! no addresses, or does not exist, clears it.
//!
//! The decisions are in a pure `Plan`, which is driven from here.

mod families;
mod hickory;
mod plan;
mod resolution;
mod resolve;

pub use hickory::SystemResolver;
pub use resolution::Resolutions;
pub use resolve::{AddressAnswer, DnsError, RecordType, Resolve, SrvAnswer};

use futures::future::BoxFuture;
use linkerd_proxy_core::Backoff;
use plan::{Decision, Plan};
use rand::{SeedableRng, rngs::StdRng};
use std::{
    net::{Ipv4Addr, SocketAddr},
    str::FromStr,
    sync::Arc,
    time::Duration,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

/// The address of the control plane, as configured.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ControlAddr {
    /// An address, which needs no DNS.
    Socket(SocketAddr),
    /// A name to resolve.
    Name {
        /// As configured: a trailing dot says that the name is absolute.
        host: String,
        /// The port, for answers without a port.
        port: u16,
    },
}

/// The text is not a `host:port`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no `host:port`")]
pub struct InvalidControlAddr(pub String);

/// The addresses of a name. Empty once a name that had addresses has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressSet {
    /// The addresses, sorted.
    pub addrs: Vec<SocketAddr>,
    /// Rises with each change.
    pub generation: u64,
    /// The time of the last change.
    pub changed_at: Instant,
}

/// Watches the addresses of `addr`, on `runtime`. `None` until there is an answer.
///
/// Waits for: each query, at most 3 s (SRV) and 10 s; its TTL; the backoff after a failure. Fails as: nothing, the last answer
/// stays, unless the name has no addresses. Ends when the last receiver is dropped.
pub fn watch(
    addr: ControlAddr,
    resolver: Arc<dyn Resolve>,
    backoff: Backoff,
    resolutions: Arc<Resolutions>,
    runtime: &tokio::runtime::Handle,
) -> watch::Receiver<Option<Arc<AddressSet>>> {
    let (tx, rx) = watch::channel(None);
    match addr.constant() {
        Ok(addr) => {
            resolutions.is_fixed(addr);
            publish(&tx, vec![addr]);
        }
        Err((host, port)) => {
            resolutions.follows(&host);
            runtime.spawn(async move {
                tokio::select! {
                    () = tx.closed() => {}
                    () = resolve(&host, Plan::new(port, backoff), &*resolver, &resolutions, &tx) => {}
                }
            });
        }
    }
    rx
}

/// Resolves an address once, in the same way as [`watch()`], within 3 s for its SRV query and 10 s for the others. The error names both
/// queries.
pub async fn resolve_once(
    addr: ControlAddr,
    resolver: &dyn Resolve,
    backoff: Backoff,
) -> Result<Vec<SocketAddr>, String> {
    let (host, port) = match addr.constant() {
        Ok(addr) => return Ok(vec![addr]),
        Err(name) => name,
    };
    let mut plan = Plan::new(port, backoff);
    let mut rng = StdRng::from_rng(&mut rand::rng());
    let decision = match plan.srv(answer(SRV_WAIT, resolver.srv(&host)).await) {
        Decision::Query => {
            let addresses = answer(ADDRESSES_WAIT, resolver.addresses(&host)).await;
            plan.addresses(addresses, &mut rng)
        }
        decision => decision,
    };
    match decision {
        Decision::Use { addrs, .. } => Ok(addrs),
        Decision::Retry { error, .. } | Decision::Clear { error, .. } => Err(error),
        Decision::Query => Err("no answer".to_owned()),
    }
}

impl ControlAddr {
    /// The address, or the host and port of a name that needs DNS.
    fn constant(self) -> Result<SocketAddr, (String, u16)> {
        match self {
            Self::Socket(addr) => Ok(addr),
            Self::Name { host, port } if is_localhost(&host) => {
                Ok((Ipv4Addr::LOCALHOST, port).into())
            }
            Self::Name { host, port } => Err((host, port)),
        }
    }
}

impl FromStr for ControlAddr {
    type Err = InvalidControlAddr;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidControlAddr(text.to_owned());
        if let Ok(addr) = text.parse() {
            return Ok(Self::Socket(addr));
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(invalid)?;
        let port = port
            .parse()
            .ok()
            .filter(|port| *port != 0)
            .ok_or_else(invalid)?;
        let plausible = !host.is_empty()
            && host
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
        if !plausible {
            return Err(invalid());
        }
        let host = host.to_owned();
        Ok(Self::Name { host, port })
    }
}

/// Resolves a name repeatedly.
async fn resolve(
    host: &str,
    mut plan: Plan,
    resolver: &dyn Resolve,
    resolutions: &Resolutions,
    tx: &watch::Sender<Option<Arc<AddressSet>>>,
) {
    let mut rng = StdRng::from_rng(&mut rand::rng());
    loop {
        let query = plan.next_query();
        let decision = match query {
            RecordType::Srv => plan.srv(answer(SRV_WAIT, resolver.srv(host)).await),
            RecordType::Addresses => {
                let addresses = answer(ADDRESSES_WAIT, resolver.addresses(host)).await;
                plan.addresses(addresses, &mut rng)
            }
        };
        resolutions.count(query, matches!(decision, Decision::Use { .. }));
        match decision {
            Decision::Query => {}
            Decision::Use { addrs, again_in } => {
                resolutions.resolved(&addrs, again_in);
                publish(tx, addrs);
                sleep(again_in).await;
            }
            Decision::Retry { error, again_in } => {
                resolutions.failed(&error, again_in);
                tracing::warn!(host, %error, ?again_in, "failed to resolve a control-plane address");
                sleep(again_in).await;
            }
            Decision::Clear { error, again_in } => {
                resolutions.cleared(&error, again_in);
                tracing::warn!(host, %error, ?again_in, "a control-plane name has no addresses");
                clear(tx);
                sleep(again_in).await;
            }
        }
    }
}

async fn answer<T>(
    limit: Duration,
    query: BoxFuture<'static, Result<T, DnsError>>,
) -> Result<T, DnsError> {
    timeout(limit, query).await.unwrap_or_else(|_| {
        Err(DnsError {
            is_negative: false,
            negative_ttl: None,
            message: "no answer in time".to_owned(),
        })
    })
}

fn publish(tx: &watch::Sender<Option<Arc<AddressSet>>>, addrs: Vec<SocketAddr>) {
    tx.send_if_modified(|current| {
        let generation = match current {
            Some(set) if set.addrs == addrs => return false,
            Some(set) => set.generation + 1,
            None => 1,
        };
        *current = Some(Arc::new(AddressSet {
            addrs,
            generation,
            changed_at: Instant::now(),
        }));
        true
    });
}

/// Publishes that there are no addresses, if there were any.
fn clear(tx: &watch::Sender<Option<Arc<AddressSet>>>) {
    if tx.borrow().is_some() {
        publish(tx, Vec::new());
    }
}

fn is_localhost(host: &str) -> bool {
    host.strip_suffix('.')
        .unwrap_or(host)
        .eq_ignore_ascii_case("localhost")
}

/// The limit of an SRV query. Some servers never answer it, and the addresses come from A records then.
const SRV_WAIT: Duration = Duration::from_secs(3);

/// The limit of the address queries: the resolver ends them itself, a little earlier.
const ADDRESSES_WAIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
