//! Metrics of connections, in both directions.

use crate::metrics::{Counter, Family, Gauge, LabelSet, Labels, Registry, RegistryStyle};
use std::sync::Arc;

/// The families of transport metrics, in both directions.
#[derive(Clone, Debug)]
pub struct TransportMetrics {
    open_total: Family<Counter>,
    open: Family<Gauge>,
    read: Family<Counter>,
    write: Family<Counter>,
    close_total: Family<Counter>,
}

/// The series of one kind of connection, for one thread.
#[derive(Debug)]
pub struct TransportSeries {
    open_total: Counter,
    open: Gauge,
    read: Counter,
    write: Counter,
    closed: Counter,
    close_total: Family<Counter>,
    labels: LabelSet,
    cost: Option<TransferCost>,
}

/// Additional byte counters for traffic within a zone or across zones.
#[derive(Clone, Debug)]
pub struct TransferCost {
    /// Bytes sent.
    pub sent: Counter,
    /// Bytes received.
    pub received: Counter,
}

impl TransportMetrics {
    /// Declares the families.
    pub fn register(registry: &Registry) -> Self {
        let counter = |name, help| registry.counter(RegistryStyle::Legacy, name, help);
        Self {
            open_total: counter("tcp_open_total", "Total count of opened connections"),
            open: registry.gauge(
                RegistryStyle::Legacy,
                "tcp_open_connections",
                "Number of currently-open connections",
            ),
            read: counter(
                "tcp_read_bytes_total",
                "Total count of bytes read from peers",
            ),
            write: counter(
                "tcp_write_bytes_total",
                "Total count of bytes written to peers",
            ),
            close_total: counter("tcp_close_total", "Total count of closed connections"),
        }
    }

    /// The series with these labels, for the calling thread.
    pub fn series(&self, labels: impl Into<LabelSet>) -> Arc<TransportSeries> {
        self.series_with_cost(labels.into(), None)
    }

    /// The series with these labels; bytes also count in the zone counters.
    pub fn series_with_cost(
        &self,
        labels: LabelSet,
        cost: Option<TransferCost>,
    ) -> Arc<TransportSeries> {
        let closed = self.close_total.get(with_errno(&labels, ""));
        Arc::new(TransportSeries {
            cost,
            open_total: self.open_total.get(labels.clone()),
            open: self.open.get(labels.clone()),
            read: self.read.get(labels.clone()),
            write: self.write.get(labels.clone()),
            closed,
            close_total: self.close_total.clone(),
            labels,
        })
    }
}

impl TransportSeries {
    /// A connection is open.
    pub(super) fn opened(&self) {
        self.open_total.incr();
        self.open.incr();
    }

    /// A connection has ended, with this error of the system if it has failed.
    pub(super) fn closed(&self, errno: Option<i32>) {
        self.open.decr();
        match errno {
            None => self.closed.incr(),
            Some(errno) => self
                .close_total
                .get(with_errno(&self.labels, errno_name(errno)))
                .incr(),
        }
    }

    /// Bytes were read.
    pub(super) fn received(&self, count: u64) {
        self.read.add(count);
        if let Some(cost) = &self.cost {
            cost.received.add(count);
        }
    }

    /// Bytes were written.
    pub(super) fn sent(&self, count: u64) {
        self.write.add(count);
        if let Some(cost) = &self.cost {
            cost.sent.add(count);
        }
    }
}

fn with_errno(labels: &LabelSet, errno: &str) -> LabelSet {
    labels.and(Labels::new().with("errno", errno))
}

/// The symbolic name of a connection error, as in the incumbent's `errno` label.
fn errno_name(errno: i32) -> &'static str {
    match errno {
        libc::ECONNRESET => "ECONNRESET",
        libc::EPIPE => "EPIPE",
        libc::ETIMEDOUT => "ETIMEDOUT",
        libc::ECONNABORTED => "ECONNABORTED",
        libc::EHOSTUNREACH => "EHOSTUNREACH",
        libc::ENETUNREACH => "ENETUNREACH",
        libc::ENOTCONN => "ENOTCONN",
        libc::ENOBUFS => "ENOBUFS",
        _ => "EOTHER",
    }
}
