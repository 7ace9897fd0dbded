//! The labels of a request's way, as the Tap API names them.

use super::event::TappedWay;
use linkerd_proxy_core::{
    http::RequestNotes,
    metrics::LabelSet,
    tls::{Identity, NoTlsReason, TlsStatus},
    transport::Side,
};

/// The way of a request so far, by the notes of the stages.
pub fn way(side: Side, notes: &RequestNotes) -> TappedWay {
    let destination_labels = notes.endpoint_labels().as_ref().map(pairs);
    let destination_labels = destination_labels.unwrap_or_default();
    let route_labels = notes.route_labels().as_ref().map(pairs);
    TappedWay {
        destination: notes.endpoint(),
        destination_labels: match side {
            Side::Inbound => of_application(destination_labels),
            Side::Outbound | Side::Control => of_endpoint(destination_labels),
        },
        route: notes.route().map(|route| route.to_string()),
        route_labels: route_labels.unwrap_or_default(),
        backend: notes.backend().map(|backend| backend.to_string()),
        attempts: notes.sent(),
    }
}

/// The labels of a client's connection: `tls`, and the identity or the server name.
pub fn of_client(tls: &TlsStatus) -> Vec<(String, String)> {
    let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    match tls {
        TlsStatus::None(reason) => vec![label(TLS, reason.label())],
        TlsStatus::Meshed(identity) => {
            let identity = identity.as_ref().map_or("", Identity::as_str);
            vec![label(TLS, "true"), label("client_id", identity)]
        }
        TlsStatus::Passthrough { server_name } => {
            vec![label(TLS, "opaque"), label("sni", server_name)]
        }
    }
}

/// The labels of an endpoint, without labels that only its series need.
fn of_endpoint(series: Vec<(String, String)>) -> Vec<(String, String)> {
    let labels = series.into_iter().filter_map(|(name, value)| {
        let name = match &*name {
            TLS if value != "true" => return None,
            // In the place of the state, as the incumbent has it.
            "no_tls_reason" => TLS,
            TLS | "server_id" => &name,
            _ => name.strip_prefix("dst_")?,
        };
        Some((name.to_owned(), value))
    });
    labels.collect()
}

/// The labels of the application: those of the policy that let the request in.
fn of_application(series: Vec<(String, String)>) -> Vec<(String, String)> {
    let of_policy = |(name, _): &(String, String)| {
        ["srv_", "route_", "authz_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
    };
    let loopback = NoTlsReason::Loopback.label();
    let tls = (!series.is_empty()).then(|| (TLS.to_owned(), loopback.to_owned()));
    tls.into_iter()
        .chain(series.into_iter().filter(of_policy))
        .collect()
}

fn pairs(labels: &LabelSet) -> Vec<(String, String)> {
    let labels = labels.to_labels();
    let pairs = labels.pairs().map(|(name, value)| (name.to_owned(), value));
    pairs.collect()
}

const TLS: &str = "tls";

#[cfg(test)]
mod tests {
    use super::*;
    use linkerd_proxy_core::metrics::Labels;
    use std::net::SocketAddr;
    use tokio::time::Instant;

    fn found(side: Side, labels: &[(&str, &str)]) -> Vec<(String, String)> {
        let notes = RequestNotes::default();
        notes.want_labels();
        notes.send_to(SocketAddr::from(([10, 0, 0, 1], 80)), Instant::now());
        let labels = labels.iter().fold(Labels::new(), |labels, (name, value)| {
            labels.with(name, value)
        });
        notes.of_endpoint_labels(&labels.into());
        way(side, &notes).destination_labels
    }

    fn owned(labels: &[(&str, &str)]) -> Vec<(String, String)> {
        let labels = labels.iter();
        labels
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn an_endpoint_has_its_own_labels_and_its_encryption() {
        let plain = [
            ("direction", "outbound"),
            ("authority", "web"),
            ("target_addr", "10.0.0.1:80"),
            ("tls", "no_identity"),
            ("no_tls_reason", "loopback"),
            ("dst_pod", "web-1"),
        ];
        let expected = owned(&[("tls", "loopback"), ("pod", "web-1")]);
        assert_eq!(found(Side::Outbound, &plain), expected);
        let meshed = [("tls", "true"), ("server_id", "web.shop"), ("dst_pod", "a")];
        let expected = owned(&[("tls", "true"), ("server_id", "web.shop"), ("pod", "a")]);
        assert_eq!(found(Side::Outbound, &meshed), expected);
    }

    #[test]
    fn the_application_has_the_labels_of_its_policy() {
        let series = [
            ("direction", "inbound"),
            ("tls", "true"),
            ("client_id", "web.shop"),
            ("srv_name", "web"),
            ("authz_name", "all"),
        ];
        let expected = owned(&[
            ("tls", "loopback"),
            ("srv_name", "web"),
            ("authz_name", "all"),
        ]);
        assert_eq!(found(Side::Inbound, &series), expected);
    }

    #[test]
    fn a_request_without_an_endpoint_has_no_labels() {
        let way = way(Side::Inbound, &RequestNotes::default());
        assert_eq!(way, TappedWay::default());
    }
}
