//! The other requests as which an application may read a request.
//!
//! Rules match the bytes of a request, and servers normalise before they look: they decode `/%61dmin`, merge `//admin`, resolve
//! `/x/../admin`. Where another reading of a request leads to other authorizations, the request is ambiguous.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, uri::PathAndQuery};
use std::collections::BTreeSet;

/// The readings of a path that differ from it (RFC 3986, section 6.2.2, and what servers do beyond it): escapes of unreserved
/// characters and of separators decoded, once or as often as possible; parameters of segments removed; `\` for `/`; slashes merged;
/// dot segments resolved; each with and without the others, since servers differ.
///
/// Empty for a path that all servers read alike, which costs one pass over it. `None` for a path with more readings than are
/// compared: otherwise clients would choose how much work it is.
pub fn path_readings(path: &str) -> Option<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    if is_plain(path) {
        return Some(all);
    }
    all.insert(path.to_owned());
    for step in STEPS {
        let changed: Vec<_> = all.iter().map(|form| step(form)).collect();
        all.extend(changed);
        if all.len() > 1 && all.iter().map(String::len).sum::<usize>() > MAX_BYTES {
            return None;
        }
    }
    all.remove(path);
    Some(all)
}

/// The readings of the values of a field: each value of a list, and the first and the last line alone. Empty if there is one line,
/// without a list.
pub fn value_readings(headers: &HeaderMap, name: &HeaderName) -> Vec<HeaderValue> {
    let lines = || {
        headers
            .get_all(name)
            .iter()
            .chain(underscored(headers, name))
    };
    let is_plain = |value: &HeaderValue| !value.as_bytes().contains(&b',');
    if lines().all(is_plain)
        && lines().nth(1).is_none()
        && underscored(headers, name).next().is_none()
    {
        return Vec::new();
    }
    let members = lines().flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    let members = members.map(|member| HeaderValue::from_bytes(member.trim_ascii()));
    let lines = lines().cloned();
    lines.chain(members.flatten()).take(MAX_VALUES).collect()
}

/// The values of fields whose names are `name` with underscores: gateway interfaces (RFC 3875, section 4.1.18) do not tell
/// them apart.
fn underscored<'a>(
    headers: &'a HeaderMap,
    name: &'a HeaderName,
) -> impl Iterator<Item = &'a HeaderValue> {
    let name = name.as_str();
    let is_same = move |other: &str| {
        other.len() == name.len()
            && other.contains('_')
            && other
                .bytes()
                .zip(name.bytes())
                .all(|(other, own)| other == own || other == b'_' && own == b'-')
    };
    headers
        .iter()
        .filter(move |(other, _)| is_same(other.as_str()))
        .map(|(_, value)| value)
}

/// The known method from which a method differs in case only.
pub fn method_reading(method: &Method) -> Option<Method> {
    let upper = method.as_str().to_ascii_uppercase();
    let is_other = upper != method.as_str() && METHODS.contains(&&*upper);
    is_other
        .then(|| Method::from_bytes(upper.as_bytes()).ok())
        .flatten()
}

/// A request with another path.
pub fn with_path<B>(request: &Request<B>, path: &str) -> Option<Request<()>> {
    let mut parts = request.uri().clone().into_parts();
    let text = match request.uri().query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    parts.path_and_query = Some(PathAndQuery::try_from(text).ok()?);
    let mut read = head(request);
    *read.uri_mut() = Uri::from_parts(parts).ok()?;
    Some(read)
}

/// A request with one value of a field.
pub fn with_value<B>(request: &Request<B>, name: &HeaderName, value: HeaderValue) -> Request<()> {
    let mut read = head(request);
    read.headers_mut().insert(name.clone(), value);
    read
}

fn head<B>(request: &Request<B>) -> Request<()> {
    let mut head = Request::new(());
    *head.method_mut() = request.method().clone();
    *head.uri_mut() = request.uri().clone();
    *head.headers_mut() = request.headers().clone();
    head
}

/// Whether all servers read a path alike.
fn is_plain(path: &str) -> bool {
    let bytes = path.as_bytes();
    let is_special = |byte: &u8| matches!(byte, b'%' | b'\\' | b';');
    let is_slash_pair = |pair: &[u8]| matches!(pair, b"//" | b"/.");
    !bytes.iter().any(is_special) && !bytes.windows(2).any(is_slash_pair)
}

/// The steps of a server on the way from the bytes to the path, in the order in which most take them.
const STEPS: [fn(&str) -> String; 8] = [
    without_parameters,
    |path| decoded(path, is_unreserved),
    |path| decoded(path, is_decodable),
    |path| decoded_wholly(path),
    without_parameters,
    |path| path.replace('\\', "/"),
    with_merged_slashes,
    without_dot_segments,
];

/// Decodes the escapes of some characters, and writes the others in upper case.
fn decoded(path: &str, is_decoded: fn(u8) -> bool) -> String {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, behind @ ..] = rest {
        if *first == b'%'
            && let [high, low, behind @ ..] = behind
            && let (Some(high_value), Some(low_value)) = (hex(*high), hex(*low))
        {
            match high_value * 16 + low_value {
                byte if is_decoded(byte) => bytes.push(byte),
                _ => bytes.extend([b'%', high.to_ascii_uppercase(), low.to_ascii_uppercase()]),
            }
            rest = behind;
        } else {
            bytes.push(*first);
            rest = behind;
        }
    }
    // Only ASCII was decoded.
    String::from_utf8(bytes).unwrap_or_else(|_| path.to_owned())
}

/// Decodes as often as something changes, with `%25` for `%`.
fn decoded_wholly(path: &str) -> String {
    let mut path = path.to_owned();
    for _ in 0..MAX_ROUNDS {
        let next = decoded(&path, |byte| byte == b'%' || is_decodable(byte));
        if next == path {
            break;
        }
        path = next;
    }
    path
}

fn without_parameters(path: &str) -> String {
    let segments = path.split('/');
    let segments = segments.map(|segment| segment.split(';').next().unwrap_or_default());
    segments.collect::<Vec<_>>().join("/")
}

fn with_merged_slashes(path: &str) -> String {
    let mut merged = String::with_capacity(path.len());
    for character in path.chars() {
        if character != '/' || !merged.ends_with('/') {
            merged.push(character);
        }
    }
    merged
}

/// Removes `.` and resolves `..` (RFC 3986, section 5.2.4).
fn without_dot_segments(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." => {}
            ".." => {
                kept.pop();
            }
            _ => kept.push(segment),
        }
        if is_last && matches!(segment, "." | "..") {
            kept.push("");
        }
    }
    format!("/{}", kept.join("/"))
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Unreserved characters, and those that separate segments and parameters.
fn is_decodable(byte: u8) -> bool {
    is_unreserved(byte) || matches!(byte, b'/' | b'\\' | b';')
}

fn hex(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

/// The methods of RFC 9110, section 9, and PATCH.
const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
];

/// Bytes of all readings of a path: those of a path of 5 KB with parameters and an escape.
const MAX_BYTES: usize = 16 * 1024;
/// Values of a field that are read.
const MAX_VALUES: usize = 64;
/// Rounds of decoding. Servers behind gateways decode two or three times.
const MAX_ROUNDS: usize = 4;

#[cfg(test)]
mod tests;
