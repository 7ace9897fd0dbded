//! `Proxy-Status` (RFC 9209): which proxy failed a request, where, why, and what to look at.

use crate::{Error, transport::Side};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::fmt::Write;

/// The header.
pub(super) const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

/// The value for an error of `side`. Beside the parameters of the RFC it has `side`, `origin`, `phase` and `hint`.
pub(super) fn proxy_status(error: &Error, side: Side) -> Option<HeaderValue> {
    let row = error.reason().row();
    let mut status = format!(
        "{NAME}{}{DETAILS}{}\"; side={}; origin={}; phase={}",
        row.proxy_status,
        row.label,
        side.name(),
        error.origin().name(),
        row.phase.name()
    );
    let next_hop = error.peer_addr();
    let next_hop = next_hop.map(|addr| write!(status, "; next-hop=\"{addr}\""));
    debug_assert_ne!(next_hop, Some(Err(std::fmt::Error)));
    status.push_str("; hint=\"");
    // A string of RFC 8941.
    for char in error.hint().chars() {
        if matches!(char, '"' | '\\') {
            status.push('\\');
        }
        status.push(char);
    }
    status.push('"');
    HeaderValue::try_from(status).ok()
}

/// The label of the reason, if the answer was made by the inbound side of a proxy like this one, in front of its application.
/// An answer of an outbound side, which the application passed on, says nothing about the request to that application.
pub(super) fn reason_label(headers: &HeaderMap) -> Option<&str> {
    let status = headers.get(PROXY_STATUS)?.to_str().ok()?;
    let (_, label) = status.strip_prefix(NAME)?.split_once(DETAILS)?;
    let (label, rest) = label.split_once('"')?;
    rest.starts_with(INBOUND).then_some(label)
}

/// Removes the values of proxies like this one, which name addresses of pods.
pub fn remove_proxy_status(headers: &mut HeaderMap) {
    if !headers.contains_key(PROXY_STATUS) {
        return;
    }
    let is_own = |value: &HeaderValue| value.as_bytes().starts_with(NAME.as_bytes());
    let all: Vec<_> = headers.get_all(PROXY_STATUS).iter().cloned().collect();
    headers.remove(PROXY_STATUS);
    for value in all.into_iter().filter(|value| !is_own(value)) {
        headers.append(PROXY_STATUS, value);
    }
}

const NAME: &str = "linkerd-proxy; error=";
const DETAILS: &str = "; details=\"";
const INBOUND: &str = "; side=inbound;";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reason, reason::ALL};

    #[test]
    fn a_failure_names_its_side_origin_phase_and_hint() {
        let error = Error::new(Reason::ConnectRefused).peer(([10, 0, 0, 1], 80).into());
        let status = proxy_status(&error, Side::Inbound).unwrap();
        let status = status.to_str().unwrap();
        let start = "linkerd-proxy; error=connection_refused; details=\"connect_refused\"; side=inbound; \
                     origin=endpoint; phase=connect; next-hop=\"10.0.0.1:80\"; hint=\"Is the application";
        assert!(status.starts_with(start), "{status}");
    }

    #[test]
    fn only_the_values_of_these_proxies_are_removed() {
        let own = proxy_status(&Error::new(Reason::ConnectRefused), Side::Outbound).unwrap();
        let other = HeaderValue::from_static("cache; error=dns_error");
        let mut headers = HeaderMap::new();
        headers.append(PROXY_STATUS, own);
        headers.append(PROXY_STATUS, other.clone());
        remove_proxy_status(&mut headers);
        let left: Vec<_> = headers.get_all(PROXY_STATUS).iter().collect();
        assert_eq!(left, [&other]);
    }

    #[test]
    fn every_reason_can_be_written_and_read() {
        for reason in ALL {
            for (side, label) in [
                (Side::Inbound, Some(reason.label())),
                (Side::Outbound, None),
            ] {
                let value = proxy_status(&Error::new(*reason), side).unwrap();
                let text = value.to_str().unwrap();
                assert!(text.is_ascii() && text.ends_with('"'), "{text}");
                let headers = HeaderMap::from_iter([(PROXY_STATUS, value.clone())]);
                assert_eq!(reason_label(&headers), label);
            }
        }
    }
}
