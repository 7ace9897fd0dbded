//! Framing: the end of a body over HTTP/1 (RFC 9112, section 6), stated in exactly one way.
//!
//! If two readers find different ends of a message, one takes the rest of it for another message. The message that is passed
//! on must allow only the reading that this proxy made.

use super::hop_by_hop::tokens;
use crate::{Error, Reason};
use http::{
    HeaderMap, HeaderValue,
    header::{CONTENT_LENGTH, TRANSFER_ENCODING},
};

/// Refuses a request with a `Transfer-Encoding` that some servers would read differently: `chunked` twice or not last, or
/// `identity` beside it.
pub(super) fn check_request(headers: &HeaderMap) -> Result<(), Error> {
    let codings = Codings::of(headers);
    match codings.is_chunked_once_and_last && !codings.has_identity {
        true => Ok(()),
        false => Err(Error::new(Reason::InvalidFraming).detail(format!(
            "transfer-encoding {:?} is ambiguous",
            codings.text()
        ))),
    }
}

/// Leaves a response one way to find its end: the number that equal lengths agree on, or no length if the body is chunked.
/// The codec adds `chunked` where it is needed.
pub(super) fn repair_response(headers: &mut HeaderMap) -> Result<(), Error> {
    let invalid = |detail: String| Error::new(Reason::InvalidResponse).detail(detail);
    if headers.contains_key(TRANSFER_ENCODING) {
        let codings = Codings::of(headers);
        if codings.has_chunked && !codings.is_chunked_once_and_last {
            let detail = format!("transfer-encoding {:?} is ambiguous", codings.text());
            return Err(invalid(detail));
        }
        let others = codings.others.join(&b", "[..]);
        headers.remove(CONTENT_LENGTH);
        headers.remove(TRANSFER_ENCODING);
        if !others.is_empty()
            && let Ok(others) = HeaderValue::from_bytes(&others)
        {
            headers.insert(TRANSFER_ENCODING, others);
        }
        return Ok(());
    }
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter().flat_map(tokens);
    let first = lengths.next().and_then(length);
    let agreed = first.filter(|first| lengths.all(|other| length(other) == Some(*first)));
    drop(lengths);
    match agreed {
        Some(length) => {
            headers.insert(CONTENT_LENGTH, length.into());
            Ok(())
        }
        None => Err(invalid(
            "the lengths of the response differ, or are no numbers".to_owned(),
        )),
    }
}

/// The transfer codings of a message.
struct Codings<'a> {
    has_chunked: bool,
    is_chunked_once_and_last: bool,
    has_identity: bool,
    others: Vec<&'a [u8]>,
    all: Vec<&'a [u8]>,
}

impl<'a> Codings<'a> {
    fn of(headers: &'a HeaderMap) -> Self {
        let all: Vec<_> = headers
            .get_all(TRANSFER_ENCODING)
            .iter()
            .flat_map(tokens)
            .collect();
        let is = |coding: &[u8], name: &str| coding.eq_ignore_ascii_case(name.as_bytes());
        let chunked = all.iter().filter(|coding| is(coding, "chunked")).count();
        let is_last = all.last().is_some_and(|last| is(last, "chunked"));
        let is_other = |coding: &&[u8]| !is(coding, "chunked") && !is(coding, "identity");
        Self {
            has_chunked: chunked > 0,
            is_chunked_once_and_last: chunked == 1 && is_last,
            has_identity: all.iter().any(|coding| is(coding, "identity")),
            others: all.iter().copied().filter(is_other).collect(),
            all,
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.all.join(&b", "[..])).into_owned()
    }
}

/// A content length, which has digits only.
fn length(text: &[u8]) -> Option<u64> {
    let digits = text.iter().all(u8::is_ascii_digit);
    digits.then(|| std::str::from_utf8(text).ok()?.parse().ok())?
}
