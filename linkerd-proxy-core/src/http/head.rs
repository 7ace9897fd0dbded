//! Heads of messages, prepared for the next connection: checked, and without the fields of this connection.

use super::{
    framing,
    hop_by_hop::{
        Removed, is_unregistered_hop_by_hop, offered_protocols, remove_hop_by_hop, set_upgrade,
    },
    host::is_host,
    message::check_form,
};
use crate::{Error, Reason};
use http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version,
    header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING, UPGRADE},
    uri::Authority,
};

/// Checks the head of a request, and removes the fields of its connection. Returns whether the request asks for an upgrade.
///
/// Fails as `InvalidRequest` and `InvalidFraming`. All fields are examined in one pass: most requests have few, and only
/// `Host` of those that matter here.
pub fn prepare_request<B>(request: &mut Request<B>) -> Result<bool, Error> {
    let is_http1 = request.version() != Version::HTTP_2;
    if is_http1 {
        check_form(request)?;
    }
    let authority = request.uri().authority().map(Authority::as_str);
    if authority.is_some_and(|authority| !is_host(authority.as_bytes())) {
        let detail = "the request's target is not a host and port";
        return Err(Error::new(Reason::InvalidRequest).detail(detail));
    }
    let fields = Fields::of(request.headers());
    fields.check_host()?;
    if !is_http1 {
        return Ok(false);
    }
    let (has_upgrade, has_hop_by_hop) = (fields.upgrade, fields.hop_by_hop);
    if fields.transfer_encoding {
        framing::check_request(request.headers())?;
    }
    let offered = (has_upgrade && request.version() == Version::HTTP_11)
        .then(|| offered_protocols(request.headers()))
        .flatten();
    if has_hop_by_hop {
        remove_hop_by_hop(request.headers_mut());
    }
    if let Some(offered) = offered {
        set_upgrade(request.headers_mut(), offered);
        return Ok(true);
    }
    Ok(request.method() == Method::CONNECT)
}

/// Checks the head of a response over HTTP/1, and removes the fields of its connection.
///
/// Fails as `InvalidResponse`.
pub fn prepare_response<B>(response: &mut Response<B>) -> Result<(), Error> {
    let fields = Fields::of(response.headers());
    let may_be_ambiguous = fields.transfer_encoding || !fields.lengths.is_plain();
    if !fields.hop_by_hop && !may_be_ambiguous {
        return Ok(());
    }
    let switches = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    if may_be_ambiguous {
        framing::repair_response(headers)?;
    }
    let Removed { upgrade } = remove_hop_by_hop(headers);
    if let Some(protocol) = upgrade.filter(|_| switches) {
        set_upgrade(headers, protocol);
    }
    Ok(())
}

/// The fields of a head that matter between connections.
#[derive(Default)]
struct Fields<'a> {
    hosts: usize,
    host: Option<&'a HeaderValue>,
    lengths: Lengths,
    transfer_encoding: bool,
    upgrade: bool,
    hop_by_hop: bool,
}

/// The values of `Content-Length`.
#[derive(Clone, Copy, Default)]
struct Lengths {
    lines: usize,
    /// A value is a list or no number. A codec does not read such values for a message without a body.
    is_other: bool,
}

impl Lengths {
    fn is_plain(self) -> bool {
        self.lines <= 1 && !self.is_other
    }
}

impl<'a> Fields<'a> {
    fn of(headers: &'a HeaderMap) -> Self {
        let mut fields = Self::default();
        for (name, value) in headers {
            match *name {
                HOST => {
                    fields.hosts += 1;
                    fields.host = Some(value);
                }
                CONTENT_LENGTH => {
                    fields.lengths.lines += 1;
                    let digits = value.as_bytes();
                    let is_number =
                        matches!(digits.len(), 1..=18) && digits.iter().all(u8::is_ascii_digit);
                    fields.lengths.is_other |= !is_number;
                }
                TRANSFER_ENCODING => fields.transfer_encoding = true,
                CONNECTION => fields.hop_by_hop = true,
                UPGRADE => (fields.hop_by_hop, fields.upgrade) = (true, true),
                ref name if is_unregistered_hop_by_hop(name) => fields.hop_by_hop = true,
                _ => {}
            }
        }
        fields
    }

    /// Checks that there is at most one `Host`, and a valid one (RFC 9112, section 3.2): another server might choose another.
    fn check_host(&self) -> Result<(), Error> {
        let problem = match self.host {
            _ if self.hosts > 1 => "the request has several Host fields",
            Some(host) if !is_host(host.as_bytes()) => "the request's Host is not a host and port",
            _ => return Ok(()),
        };
        Err(Error::new(Reason::InvalidRequest).detail(problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;

    type Field<'a> = (&'static str, &'a [u8]);

    fn headers(fields: &[Field<'_>]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let value = HeaderValue::from_bytes(value).unwrap();
            headers.append(HeaderName::from_static(name), value);
        }
        headers
    }

    fn request(version: Version, fields: &[Field<'_>]) -> Request<()> {
        let mut request = Request::builder()
            .version(version)
            .uri("/")
            .body(())
            .unwrap();
        *request.headers_mut() = headers(fields);
        request
    }

    fn names(headers: &HeaderMap) -> Vec<String> {
        let mut names: Vec<_> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap_or("?")))
            .collect();
        names.sort_unstable();
        names
    }

    fn prepared(fields: &[Field<'_>]) -> (bool, Vec<String>) {
        let mut request = request(Version::HTTP_11, fields);
        let upgrades = prepare_request(&mut request).unwrap();
        (upgrades, names(request.headers()))
    }

    #[test]
    fn several_or_invalid_hosts_are_refused() {
        for (fields, ok) in [
            (&[("host", &b"web"[..])][..], true),
            (&[], true),
            (&[("host", b"")], true),
            (&[("host", b"web"), ("host", b"web")], false),
            (&[("host", b"web"), ("host", b"admin")], false),
            (&[("host", b"a b")], false),
            (&[("host", b"user@web")], false),
            (&[("host", b"web/admin")], false),
            (&[("host", b"web\xff")], false),
        ] {
            for version in [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2] {
                let checked = prepare_request(&mut request(version, fields));
                assert_eq!(checked.is_ok(), ok, "{fields:?} {version:?}");
            }
        }
    }

    #[test]
    fn only_an_upgrade_that_the_connection_names_is_one_and_h2c_never_is() {
        for (fields, offered) in [
            (
                &[("upgrade", &b"websocket"[..]), ("connection", b"upgrade")][..],
                Some("websocket"),
            ),
            (
                &[
                    ("upgrade", b"websocket"),
                    ("connection", b"keep-alive, Upgrade"),
                ],
                Some("websocket"),
            ),
            (
                &[
                    ("upgrade", b"websocket"),
                    ("connection", b"close"),
                    ("connection", b"upgrade"),
                ],
                Some("websocket"),
            ),
            (&[("upgrade", b"websocket")], None),
            (&[("upgrade", b"websocket"), ("connection", b"close")], None),
            (&[("upgrade", b"h2c"), ("connection", b"upgrade")], None),
            (&[("upgrade", b"H2C/1"), ("connection", b"upgrade")], None),
            (&[("upgrade", b"h2c;q=1"), ("connection", b"upgrade")], None),
            (
                &[("upgrade", b"websocket, h2c"), ("connection", b"upgrade")],
                Some("websocket"),
            ),
            (
                &[
                    ("upgrade", b"h2c"),
                    ("upgrade", b"foo/2"),
                    ("connection", b"upgrade"),
                ],
                Some("foo/2"),
            ),
        ] {
            let (upgrades, left) = prepared(fields);
            assert_eq!(upgrades, offered.is_some(), "{fields:?}");
            let expected = offered.map_or_else(Vec::new, |offered| {
                vec![
                    "connection: upgrade".to_owned(),
                    format!("upgrade: {offered}"),
                ]
            });
            assert_eq!(left, expected, "{fields:?}");
        }
    }

    #[test]
    fn an_upgrade_does_not_keep_what_belongs_to_the_connection() {
        let (upgrades, left) = prepared(&[
            ("upgrade", b"websocket"),
            ("connection", b"upgrade, x-named, \xff, x-other"),
            ("x-named", b"1"),
            ("x-other", b"1"),
            ("keep-alive", b"timeout=5"),
            ("proxy-connection", b"keep-alive"),
            ("http2-settings", b"AAMAAABkAAQAAP__"),
            ("x-kept", b"1"),
        ]);
        assert!(upgrades);
        assert_eq!(
            left,
            ["connection: upgrade", "upgrade: websocket", "x-kept: 1"]
        );
    }

    #[test]
    fn a_request_whose_length_is_ambiguous_is_refused() {
        for (values, ok) in [
            (&[&b"chunked"[..]][..], true),
            (&[b"gzip, chunked"], true),
            (&[b"gzip", b"Chunked"], true),
            (&[b"chunked, chunked"], false),
            (&[b"chunked", b"chunked"], false),
            (&[b"identity, chunked"], false),
            (&[b"chunked, identity"], false),
            (&[b"chunked, gzip"], false),
        ] {
            let fields: Vec<_> = values
                .iter()
                .map(|value| ("transfer-encoding", *value))
                .collect();
            let checked = prepare_request(&mut request(Version::HTTP_11, &fields));
            let reason = checked.err().map(|error| error.reason());
            assert_eq!(reason.is_none(), ok, "{values:?}");
            assert!(ok || reason == Some(Reason::InvalidFraming));
        }
    }

    fn response(status: u16, fields: &[Field<'_>]) -> Result<Vec<String>, Reason> {
        let mut response = Response::builder().status(status).body(()).unwrap();
        *response.headers_mut() = headers(fields);
        prepare_response(&mut response).map_err(|error| error.reason())?;
        Ok(names(response.headers()))
    }

    #[test]
    fn a_response_has_one_length() {
        let cases: &[(&[Field<'_>], &[&str])] = &[
            (&[("content-length", b"5")], &["content-length: 5"]),
            (&[("content-length", b"5, 5")], &["content-length: 5"]),
            (
                &[("content-length", b"5"), ("content-length", b"5")],
                &["content-length: 5"],
            ),
            (
                &[("content-length", b"5"), ("transfer-encoding", b"chunked")],
                &[],
            ),
            (
                &[("transfer-encoding", b"gzip, chunked")],
                &["transfer-encoding: gzip"],
            ),
            (&[("transfer-encoding", b"identity")], &[]),
            (&[("transfer-encoding", b"identity, chunked")], &[]),
        ];
        for (fields, expected) in cases {
            assert_eq!(response(200, fields).unwrap(), *expected, "{fields:?}");
        }
        let invalid: &[&[Field<'_>]] = &[
            &[("content-length", b"5, 6")],
            &[("content-length", b"-5")],
            &[("content-length", b"")],
            &[("content-length", b"18446744073709551616")],
            &[("content-length", b"5"), ("content-length", b"x")],
            &[("transfer-encoding", b"chunked, chunked")],
            &[("transfer-encoding", b"chunked, gzip")],
        ];
        for fields in invalid {
            assert_eq!(
                response(200, fields),
                Err(Reason::InvalidResponse),
                "{fields:?}"
            );
        }
    }

    #[test]
    fn a_switch_of_protocols_keeps_its_name_and_nothing_else_of_the_connection() {
        let fields: &[Field<'_>] = &[
            ("upgrade", b"websocket"),
            ("connection", b"Upgrade, x-named"),
            ("x-named", b"1"),
            ("sec-websocket-accept", b"x"),
        ];
        let expected = [
            "connection: upgrade",
            "sec-websocket-accept: x",
            "upgrade: websocket",
        ];
        assert_eq!(response(101, fields).unwrap(), expected);
        assert_eq!(response(200, fields).unwrap(), ["sec-websocket-accept: x"]);
    }
}
