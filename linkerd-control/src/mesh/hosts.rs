//! The addresses of the host names of endpoints and services: resolved when a file names them, and again after the
//! answer's time to live. While resolution fails, the last addresses stay; a name without addresses has none.

use futures::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

/// Resolves host names.
pub trait Resolve: Send + Sync + 'static {
    /// The addresses of a host, or an error.
    fn addresses(&self, host: &str) -> BoxFuture<'static, Result<HostAddresses, String>>;
}

/// The answer of a resolver. It is empty for a name that does not exist or has no addresses.
///
/// IPv6 is used only without IPv4, as a server on loopback often listens on one of the two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAddresses {
    /// The IPv4 addresses; `None` if their query failed, so that the last ones stay.
    pub v4: Option<Vec<Ipv4Addr>>,
    /// The IPv6 addresses; `None` if their query failed.
    pub v6: Option<Vec<Ipv6Addr>>,
    /// The time to live, if known.
    pub ttl: Option<Duration>,
}

impl HostAddresses {
    /// An answer for both families.
    pub fn new(ips: impl IntoIterator<Item = IpAddr>, ttl: Option<Duration>) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for ip in ips {
            match ip.to_canonical() {
                IpAddr::V4(ip) => v4.push(ip),
                IpAddr::V6(ip) => v6.push(ip),
            }
        }
        Self {
            v4: Some(v4),
            v6: Some(v6),
            ttl,
        }
    }
}

/// The system's resolver (`getaddrinfo`), which does not report a time to live, nor reliably whether a name exists: all its
/// errors are failures.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn addresses(&self, host: &str) -> BoxFuture<'static, Result<HostAddresses, String>> {
        let host = host.to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await;
            let found = found.map_err(|error| error.to_string())?;
            Ok(HostAddresses::new(found.map(|addr| addr.ip()), None))
        })
    }
}

/// Resolved hosts with their last addresses.
pub(crate) type Known = BTreeMap<String, Vec<IpAddr>>;

/// Follows the addresses of hosts until it is dropped.
///
/// - **Bounds**: a task for each host of the file, which has at most [`MAX_ADDRESSES`].
pub(super) struct Hosts {
    resolver: Arc<dyn Resolve>,
    known: watch::Sender<Known>,
    changes: watch::Receiver<Known>,
    tasks: BTreeMap<String, Follower>,
}

/// A task; dropping this aborts it.
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

    /// Follows exactly these hosts, and waits briefly for the addresses of new ones.
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
        // Later answers come as changes.
        let _ = timeout(FIRST_ANSWERS, self.changes.wait_for(all)).await;
    }

    /// The current addresses.
    pub(super) fn known(&mut self) -> Known {
        self.changes.borrow_and_update().clone()
    }

    /// Waits until a host's addresses change.
    pub(super) async fn changed(&mut self) {
        if self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Resolves a host periodically.
async fn follow(host: String, resolver: Arc<dyn Resolve>, known: watch::Sender<Known>) {
    let mut told: Option<String> = None;
    let mut retry = FIRST_RETRY;
    let mut last = LastAnswers::default();
    loop {
        let answer = timeout(LOOKUP_TIMEOUT, resolver.addresses(&host)).await;
        let answer = answer.unwrap_or_else(|_| Err(format!("no answer within {LOOKUP_TIMEOUT:?}")));
        let (ttl, failure) = match answer {
            Ok(answer) => (last.update(answer), NO_ADDRESSES.to_owned()),
            Err(error) => (None, error),
        };
        let ips = last.usable();
        let count = ips.len();
        known.send_if_modified(|known| {
            let changed = known.get(&host) != Some(&ips);
            known.insert(host.clone(), ips);
            changed
        });
        let pause = if let (Some(ttl), true) = (ttl, count > 0) {
            if told.take().is_some() {
                tracing::info!(%host, "Host name of the mesh file is resolved again");
            }
            retry = FIRST_RETRY;
            ttl
        } else {
            // Logged once for each cause, not for each attempt.
            if told.as_ref() != Some(&failure) {
                tracing::warn!(
                    %host, error = %failure, last_addresses = count,
                    "Host name of the mesh file cannot be resolved; addresses stay unless it has none"
                );
                told = Some(failure);
            }
            let pause = retry;
            retry = MAX_RETRY.min(retry * 2);
            pause
        };
        sleep(pause).await;
    }
}

/// The last answer of each family.
#[derive(Default)]
struct LastAnswers {
    v4: Vec<Ipv4Addr>,
    v6: Vec<Ipv6Addr>,
}

impl LastAnswers {
    /// Replaces the families of the answer. Returns its time to live, within bounds.
    fn update(&mut self, answer: HostAddresses) -> Option<Duration> {
        if let Some(v4) = answer.v4 {
            self.v4 = v4;
        }
        if let Some(v6) = answer.v6 {
            self.v6 = v6;
        }
        Some(answer.ttl.unwrap_or(UNKNOWN_TTL).clamp(MIN_TTL, MAX_TTL))
    }

    /// The usable addresses, sorted.
    fn usable(&self) -> Vec<IpAddr> {
        let mut ips: Vec<_> = match self.v4.is_empty() {
            true => self.v6.iter().copied().map(IpAddr::from).collect(),
            false => self.v4.iter().copied().map(IpAddr::from).collect(),
        };
        ips.sort_unstable();
        ips.dedup();
        ips.truncate(MAX_ADDRESSES);
        ips
    }
}

/// The error of a name without addresses.
const NO_ADDRESSES: &str = "it has no addresses";

/// Time that a file with new host names waits for their addresses, so that its first request has endpoints.
const FIRST_ANSWERS: Duration = Duration::from_secs(1);

/// The limit of a query, longer than a resolver's own attempts.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);

/// The time to live for `getaddrinfo`, which reports none. A changed name is noticed soon, and a query to a local resolver
/// costs little.
const UNKNOWN_TTL: Duration = Duration::from_secs(10);

/// The shortest time to live: 0 would mean constant queries.
const MIN_TTL: Duration = Duration::from_secs(5);

/// The longest time to live: `/etc/hosts` has a time to live of a day.
const MAX_TTL: Duration = Duration::from_secs(300);

/// Delay after a failed attempt. A process that has just started may be ahead of its network.
const FIRST_RETRY: Duration = Duration::from_millis(250);

/// Delay after many failed attempts.
const MAX_RETRY: Duration = Duration::from_secs(5);

/// The most addresses of a host: more than fit into an answer over UDP.
const MAX_ADDRESSES: usize = 256;

#[cfg(test)]
mod tests;
