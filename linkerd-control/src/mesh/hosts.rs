//! The addresses of endpoints that are host names: looked up when the file names them, and again when an answer's time to
//! live is over. While a look-up fails, the last addresses stay.

use futures::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

/// Looks up host names.
pub trait Resolve: Send + Sync + 'static {
    /// The addresses of a host, or why there are none.
    fn addresses(&self, host: &str) -> BoxFuture<'static, Result<Addresses, String>>;
}

/// The answer to a look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The addresses. IPv6 ones count only if there are no others, as a server on loopback often listens on one of both.
    pub ips: Vec<IpAddr>,
    /// How long they are good for, if that is known.
    pub ttl: Option<Duration>,
}

/// The system's resolver (`getaddrinfo`), which does not say how long an answer is good for.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn addresses(&self, host: &str) -> BoxFuture<'static, Result<Addresses, String>> {
        let host = host.to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await;
            let found = found.map_err(|error| error.to_string())?;
            Ok(Addresses {
                ips: found.map(|addr| addr.ip()).collect(),
                ttl: None,
            })
        })
    }
}

/// The hosts that were looked up, with their last addresses.
pub(crate) type Known = BTreeMap<String, Vec<IpAddr>>;

/// Follows the addresses of hosts until it is dropped.
///
/// - **Bounds**: a task for each host of the file, which has [`MAX_ADDRESSES`] at most.
pub(super) struct Hosts {
    resolver: Arc<dyn Resolve>,
    known: watch::Sender<Known>,
    changes: watch::Receiver<Known>,
    tasks: BTreeMap<String, Follower>,
}

/// A task that ends with this.
struct Follower(AbortHandle);

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Hosts {
    pub(super) fn new(resolver: Arc<dyn Resolve>) -> Self {
        let (known, changes) = watch::channel(Known::new());
        Self {
            resolver,
            known,
            changes,
            tasks: BTreeMap::new(),
        }
    }

    /// Follows these hosts and no others, and waits a moment for the addresses of new ones.
    pub(super) async fn follow(&mut self, hosts: BTreeSet<String>) {
        self.tasks.retain(|host, _| hosts.contains(host));
        self.known.send_if_modified(|known| {
            known.retain(|host, _| hosts.contains(host));
            false
        });
        for host in &hosts {
            if !self.tasks.contains_key(host) {
                let (resolver, known) = (self.resolver.clone(), self.known.clone());
                let task = tokio::spawn(follow(host.clone(), resolver, known));
                let follower = Follower(task.abort_handle());
                self.tasks.insert(host.clone(), follower);
            }
        }
        let all = |known: &Known| hosts.iter().all(|host| known.contains_key(host));
        // Those that take longer come as a change.
        let _ = timeout(FIRST_ANSWERS, self.changes.wait_for(all)).await;
    }

    /// The addresses known at present.
    pub(super) fn known(&mut self) -> Known {
        self.changes.borrow_and_update().clone()
    }

    /// Waits until another host or address is known.
    pub(super) async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Looks a host up, again and again.
async fn follow(host: String, resolver: Arc<dyn Resolve>, known: watch::Sender<Known>) {
    let mut told: Option<String> = None;
    loop {
        let answer = timeout(LOOKUP_TIMEOUT, resolver.addresses(&host)).await;
        let answer = answer.unwrap_or_else(|_| Err(format!("no answer within {LOOKUP_TIMEOUT:?}")));
        let pause = match answer.and_then(usable) {
            Ok(Addresses { ips, ttl }) => {
                if told.take().is_some() {
                    tracing::info!(%host, "Host name of the mesh file is resolved again");
                }
                known.send_if_modified(|known| {
                    let changed = known.get(&host) != Some(&ips);
                    known.insert(host.clone(), ips);
                    changed
                });
                ttl.unwrap_or(UNKNOWN_TTL).clamp(MIN_TTL, MAX_TTL)
            }
            Err(error) => {
                // Once for each cause, not for each look-up.
                if told.as_ref() != Some(&error) {
                    let last = known.borrow().get(&host).map_or(0, Vec::len);
                    tracing::warn!(
                        %host, %error, last_addresses = last,
                        "Host name of the mesh file cannot be resolved; its last addresses stay"
                    );
                    told = Some(error);
                }
                known.send_if_modified(|known| {
                    let unknown = !known.contains_key(&host);
                    known.entry(host.clone()).or_default();
                    unknown
                });
                RETRY
            }
        };
        sleep(pause).await;
    }
}

/// The addresses that count, in an order that does not depend on the answer's.
fn usable(answer: Addresses) -> Result<Addresses, String> {
    let mut ips: Vec<_> = answer.ips.iter().map(IpAddr::to_canonical).collect();
    if ips.iter().any(IpAddr::is_ipv4) {
        ips.retain(IpAddr::is_ipv4);
    }
    ips.sort_unstable();
    ips.dedup();
    ips.truncate(MAX_ADDRESSES);
    match ips.is_empty() {
        true => Err("it has no addresses".to_owned()),
        false => Ok(Addresses { ips, ..answer }),
    }
}

/// How long a file with new host names waits for their addresses, so that its first request has endpoints.
const FIRST_ANSWERS: Duration = Duration::from_secs(1);

/// Longer than a resolver's own attempts.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);

/// `getaddrinfo` gives none. A name that moves is followed soon, and a look-up of a local resolver costs little.
const UNKNOWN_TTL: Duration = Duration::from_secs(10);

/// A time to live of 0 would have us look up all the time.
const MIN_TTL: Duration = Duration::from_secs(5);

/// `/etc/hosts` gives a day.
const MAX_TTL: Duration = Duration::from_secs(300);

/// How soon a look-up that failed is made again.
const RETRY: Duration = Duration::from_secs(5);

/// More than an answer over UDP has.
const MAX_ADDRESSES: usize = 256;

#[cfg(test)]
mod tests;
