//! Words of balancers.

use super::value::InvalidValue;
use http::HeaderName;
use linkerd_balance::{Affinity, LoadKind};

/// `peak-ewma` or `least-pending`.
pub fn balancer_load(text: &str) -> Result<LoadKind, InvalidValue> {
    match text.trim() {
        "peak-ewma" => Ok(LoadKind::PeakEwma),
        "least-pending" => Ok(LoadKind::LeastPending),
        _ => Err(InvalidValue::default()),
    }
}

/// `header:NAME` or `cookie:NAME`.
pub fn affinity(text: &str) -> Result<Affinity, InvalidValue> {
    let (kind, name) = text
        .trim()
        .split_once(':')
        .ok_or_else(InvalidValue::default)?;
    match kind {
        "header" => HeaderName::try_from(name)
            .map(Affinity::Header)
            .map_err(|_| InvalidValue::fix(format!("{name:?} is no header name"))),
        "cookie" if is_cookie_name(name) => Ok(Affinity::Cookie(name.to_owned())),
        "cookie" => Err(InvalidValue::fix(format!("{name:?} is no cookie name"))),
        _ => Err(InvalidValue::default()),
    }
}

/// Whether a name is a token (RFC 6265, 4.1.1).
fn is_cookie_name(name: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?={}".contains(&byte);
    !name.is_empty() && name.bytes().all(is_token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_affinity_names_a_header_or_a_cookie() {
        let header = Affinity::Header(HeaderName::from_static("x-user"));
        assert_eq!(affinity("header:X-User"), Ok(header));
        assert_eq!(
            affinity("cookie:Session"),
            Ok(Affinity::Cookie("Session".to_owned()))
        );
        for wrong in [
            "",
            "x-user",
            "source:ip",
            "header:",
            "header:a b",
            "cookie:",
            "cookie:a=b",
        ] {
            assert!(affinity(wrong).is_err(), "{wrong}");
        }
    }
}
