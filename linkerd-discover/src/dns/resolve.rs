//! Resolvers, and their answers.

use futures::future::BoxFuture;
use std::{
    net::{Ipv4Addr, Ipv6Addr},
    time::Duration,
};

/// A resolver of names: the system's, or a test's.
pub trait Resolve: Send + Sync + 'static {
    /// The SRV records of a name.
    fn srv(&self, name: &str) -> BoxFuture<'static, Result<SrvAnswer, DnsError>>;

    /// The A and AAAA records of a name.
    fn addresses(&self, name: &str) -> BoxFuture<'static, Result<AddressAnswer, DnsError>>;
}

/// The type of the records of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordType {
    /// SRV records.
    Srv,
    /// A and AAAA records.
    Addresses,
}

/// SRV records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SrvAnswer {
    /// Names and ports.
    pub targets: Vec<(String, u16)>,
    /// Time to live.
    pub ttl: Duration,
}

/// A and AAAA records. A name without records has an answer, too: an empty one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressAnswer {
    /// The IPv4 addresses; `None` if their query failed while that of the other family was answered.
    pub v4: Option<Vec<Ipv4Addr>>,
    /// The IPv6 addresses; `None` if their query failed.
    pub v6: Option<Vec<Ipv6Addr>>,
    /// Time to live.
    pub ttl: Duration,
}

/// A query failed, or found nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DnsError {
    /// Whether a server answered that there are no such records, unlike a time-out or SERVFAIL.
    pub is_negative: bool,
    /// Time to live of a negative answer, if it has one.
    pub negative_ttl: Option<Duration>,
    /// The resolver's message.
    pub message: String,
}
