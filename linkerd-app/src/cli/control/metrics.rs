//! Metrics of the embedded controller.

use super::authority::MeshAuthority;
use linkerd_control::{CertificateCounts, Controller, LookupKind, MeshLoad};
use linkerd_proxy_core::metrics::{Exposition, Labels, MetricKind, Registry};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{SystemTime, UNIX_EPOCH},
};
use tokio::sync::watch;

/// The families, for the documentation.
pub(crate) const FAMILIES: &[(&str, &str, &str)] = &[
    (
        AUTHORITY,
        "gauge",
        "Time when the certificate of the authority expires, in seconds since 1970",
    ),
    (
        CERTIFICATES,
        "counter",
        "Requests for certificates: issued, or refused because of the token, the name or the request",
    ),
    (CONNECTIONS, "gauge", "Open connections of proxies"),
    (
        MAX_CONNECTIONS,
        "gauge",
        "Connections of proxies that may be open; more wait",
    ),
    (LOADS, "counter", "Loads of the mesh file"),
    (
        REFUSED,
        "gauge",
        "1 if the present mesh file is refused, so that an older one is in use",
    ),
    (STREAMS, "gauge", "Open watches of proxies"),
];

/// The time at which the authority expires, shared with the metrics.
#[derive(Clone, Default)]
pub(super) struct AuthorityExpiry(Arc<AtomicU64>);

impl AuthorityExpiry {
    /// Notes the authority in use.
    pub(super) fn set(&self, authority: &MeshAuthority) {
        let expires: SystemTime = authority.present().expires();
        let expires = expires.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.0.store(expires.as_secs(), Relaxed);
    }
}

/// Declares the families of a controller that follows a mesh file.
pub(super) fn register(
    registry: &Registry,
    controller: Controller,
    loads: watch::Receiver<MeshLoad>,
    expiry: AuthorityExpiry,
) {
    crate::process::register(registry);
    registry.collect(move |out| {
        let expires = Some(expiry.0.load(Relaxed)).filter(|expires| *expires > 0);
        if let Some(expires) = expires {
            head(out, AUTHORITY);
            out.sample(AUTHORITY, &Labels::new(), expires);
            write_certificates(&controller.identity().counts(), out);
        }
        let (open, limit) = controller.connections();
        for (name, value) in [(CONNECTIONS, open), (MAX_CONNECTIONS, limit)] {
            head(out, name);
            out.sample(name, &Labels::new(), value);
        }
        write_loads(&loads.borrow(), out);
        head(out, STREAMS);
        for (kind, open) in controller.streams() {
            let kind = match kind {
                LookupKind::Destination => "destination",
                LookupKind::Profile => "profile",
                LookupKind::Policy => "outbound_policy",
                LookupKind::Server => "inbound_policy",
            };
            out.sample(STREAMS, &Labels::new().with("kind", kind), open);
        }
    });
}

fn write_certificates(counts: &CertificateCounts, out: &mut Exposition<'_>) {
    let counts = [
        counts.issued,
        counts.refused_token,
        counts.refused_name,
        counts.refused_request,
    ];
    head(out, CERTIFICATES);
    for (outcome, count) in OUTCOMES.into_iter().zip(counts) {
        out.sample(CERTIFICATES, &Labels::new().with("outcome", outcome), count);
    }
}

fn write_loads(load: &MeshLoad, out: &mut Exposition<'_>) {
    head(out, LOADS);
    let applied = load.sequence + 1 - load.refused;
    for (outcome, count) in [("applied", applied), ("refused", load.refused)] {
        out.sample(LOADS, &Labels::new().with("outcome", outcome), count);
    }
    head(out, REFUSED);
    let is_refused = u8::from(load.outcome.is_err());
    out.sample(REFUSED, &Labels::new(), is_refused);
}

fn head(out: &mut Exposition<'_>, name: &str) {
    let family = FAMILIES.iter().find(|(known, ..)| *known == name);
    let (_, kind, help) = family.expect("each family is in the table");
    let kind = match *kind {
        "counter" => MetricKind::Counter,
        _ => MetricKind::Gauge,
    };
    out.head(kind, name, format_args!("{help}."));
}

const AUTHORITY: &str = "controller_authority_expiration_timestamp_seconds";
const CERTIFICATES: &str = "controller_certificates_total";
const CONNECTIONS: &str = "controller_connections";
const MAX_CONNECTIONS: &str = "controller_max_connections";
const LOADS: &str = "controller_mesh_file_loads_total";
const REFUSED: &str = "controller_mesh_file_refused";
const STREAMS: &str = "controller_open_streams";

/// Outcomes of requests for certificates.
const OUTCOMES: [&str; 4] = ["issued", "refused_token", "refused_name", "refused_request"];
