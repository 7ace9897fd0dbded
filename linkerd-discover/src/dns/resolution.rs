//! The record of a name: its counts for the metrics, its addresses and last error for `/state`.

use super::{plan::MAX_ADDRESSES, resolve::RecordType};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use tokio::time::Instant;

/// The resolutions of one client's name: counts for `control_dns_resolutions_total{client,record_type,result}`, and the
/// last answer.
#[derive(Debug, Default)]
pub struct Resolutions {
    srv_ok: AtomicU64,
    srv_not_found: AtomicU64,
    addresses_ok: AtomicU64,
    addresses_not_found: AtomicU64,
    /// Written by one task, a few times a minute at most.
    name: Mutex<Option<NameRecord>>,
}

/// The name of a client, with its addresses and queries.
#[derive(Debug)]
struct NameRecord {
    host: String,
    addresses: Vec<SocketAddr>,
    /// The time of the last usable answer.
    resolved_at: Option<Instant>,
    /// The time of the next query; `None` for an address, which is never queried.
    next_query: Option<Instant>,
    /// The error of the last query, if it failed.
    last_error: Option<String>,
}

impl Resolutions {
    /// The count of each series, by the labels `record_type` and `result`.
    pub fn series(&self) -> [(&'static str, &'static str, u64); 4] {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("SRV", "ok", count(&self.srv_ok)),
            ("SRV", "not_found", count(&self.srv_not_found)),
            ("A/AAAA", "ok", count(&self.addresses_ok)),
            ("A/AAAA", "not_found", count(&self.addresses_not_found)),
        ]
    }

    /// The name, its addresses with their limit and age, and the last error; null before the first record.
    pub fn inspect(&self) -> Value {
        let name = self.name.lock();
        let Some(name) = &*name else {
            return Value::Null;
        };
        let now = Instant::now();
        let age = name.resolved_at.map(|at| millis(now.duration_since(at)));
        let next = name.next_query.map(|at| millis(at.duration_since(now)));
        let addresses = name.addresses.iter().map(ToString::to_string);
        json!({
            "name": name.host,
            "addresses": addresses.collect::<Vec<_>>(),
            "limit": MAX_ADDRESSES,
            "age_ms": age,
            "next_query_in_ms": next,
            "last_error": name.last_error,
        })
    }

    /// Records an address that needs no queries.
    pub(super) fn is_fixed(&self, addr: SocketAddr) {
        let mut record = NameRecord::new(addr.to_string());
        record.addresses = vec![addr];
        *self.name.lock() = Some(record);
    }

    /// Records a name before its first answer.
    pub(super) fn follows(&self, host: &str) {
        *self.name.lock() = Some(NameRecord::new(host.to_owned()));
    }

    /// Records an answer, and the time of the next query.
    pub(super) fn resolved(&self, addresses: &[SocketAddr], again_in: Duration) {
        if let Some(name) = &mut *self.name.lock() {
            name.addresses = addresses.to_vec();
            name.resolved_at = Some(Instant::now());
            name.next_query = Some(Instant::now() + again_in);
            name.last_error = None;
        }
    }

    /// Records a failed query. The last addresses stay in use.
    pub(super) fn failed(&self, error: &str, again_in: Duration) {
        if let Some(name) = &mut *self.name.lock() {
            name.next_query = Some(Instant::now() + again_in);
            name.last_error = Some(error.to_owned());
        }
    }

    /// Records an answer without addresses.
    pub(super) fn cleared(&self, error: &str, again_in: Duration) {
        if let Some(name) = &mut *self.name.lock() {
            name.addresses = Vec::new();
        }
        self.failed(error, again_in);
    }

    pub(super) fn count(&self, record_type: RecordType, ok: bool) {
        let counter = match (record_type, ok) {
            (RecordType::Srv, true) => &self.srv_ok,
            (RecordType::Srv, false) => &self.srv_not_found,
            (RecordType::Addresses, true) => &self.addresses_ok,
            (RecordType::Addresses, false) => &self.addresses_not_found,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl NameRecord {
    fn new(host: String) -> Self {
        Self {
            host,
            addresses: Vec::new(),
            resolved_at: None,
            next_query: None,
            last_error: None,
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
