//! Lines that some HTTP server reads as a request line, however lenient that server is.
//!
//! The grammar (RFC 9112, section 3) is no help here: the question is not whether a line is HTTP, but whether an application
//! behind this proxy could take it for HTTP. Each rule names the servers that it is for. Lines of other protocols that begin alike
//! have exceptions of their own.

/// Whether a line, without its end, may be a request line. `is_first` of the first line of a connection.
///
/// After the first line only a version counts, as behind a header of the PROXY protocol: many protocols have lines of two words.
pub fn is_request_line(line: &[u8], is_first: bool) -> bool {
    let text = trimmed(line);
    let is_any = || {
        has_version_as_third_word(text) || begins_with_method(line) || ends_with_other_version(text)
    };
    ends_with_version(line) || is_first && is_any()
}

/// Whether bytes begin a request: a known method, whitespace and any other byte, after bytes that servers skip.
pub fn begins_with_method(bytes: &[u8]) -> bool {
    let text = without_skipped(bytes);
    let Some(end) = text.iter().position(is_space) else {
        return false;
    };
    let (method, rest) = text.split_at(end);
    is_known_method(method)
        && !rest.iter().all(is_space)
        && !is_other_protocol(method, trimmed(rest))
}

/// Whether bytes may go on as a known method, after whitespace.
pub fn may_become_method(bytes: &[u8]) -> bool {
    let blank = bytes.iter().take_while(|byte| is_space(byte)).count();
    let begun = &bytes[blank..];
    let is_begun = |method: &&[u8]| match begun.strip_prefix(*method) {
        Some(behind) => behind.iter().all(|byte| is_space(byte) && *byte != b'\n'),
        None => method.starts_with(begun),
    };
    METHODS.iter().any(is_begun)
}

/// A byte that some server skips before a request and strips from the end of a line: whitespace and control characters, as
/// Netty and Java's `trim` do.
pub fn is_blank(byte: &u8) -> bool {
    matches!(byte, 0..=0x20 | 0x7f..=0xa0)
}

/// Whether a line that is too long to be kept has a version behind a separator in this part of it.
pub fn has_version(part: &[u8]) -> bool {
    versions(part).any(|at| at > 0 && may_separate(part[at - 1]))
}

/// A line of three words or more, of which the last is a version of HTTP. Separators are all bytes that may be one for any server: Python's servers split
/// at 0x1c to 0x1f, 0x85 and 0xa0, Java's `trim` removes all control characters.
///
/// Quotes and brackets behind the version are those of a log line, a JSON document or the like, which no server accepts.
fn ends_with_version(line: &[u8]) -> bool {
    let end = line.iter().rposition(|byte| !is_blank(byte));
    let text = &line[..end.map_or(0, |end| end + 1)];
    let Some(at) = versions(text).last() else {
        return false;
    };
    let (before, version) = text.split_at(at);
    let most = before.split(|byte| may_separate(*byte));
    let most = most.filter(|word| !word.is_empty()).count();
    before.last().is_some_and(|byte| may_separate(*byte))
        && (most >= 2 || words(before).count() >= 2)
        && !is_alpn(text, at)
        && !version
            .iter()
            .any(|byte| is_space(byte) || b"\"'`<>()[]{},;".contains(byte))
}

/// A line whose third word begins with a version of HTTP. cheroot looks at the digits alone, and splits at each space; gunicorn's
/// expression has no end.
fn has_version_as_third_word(text: &[u8]) -> bool {
    let third_at_spaces = text.splitn(3, |byte| *byte == b' ').nth(2);
    let third = words(text).nth(2);
    let begins = |word: &[u8]| word.get(..VERSION.len()).is_some_and(is_version);
    third_at_spaces.is_some_and(begins) || third.is_some_and(begins)
}

/// A line of three words, of which the last is a version of any protocol, as Netty and Undertow accept it. A method is any text
/// without control characters.
fn ends_with_other_version(text: &[u8]) -> bool {
    let is_separator = |byte: &u8| matches!(byte, b' ' | b'\t' | 0x0b | 0x0c | b'\r');
    let mut all = text.split(is_separator).filter(|word| !word.is_empty());
    let (Some(method), Some(target), Some(version), None) =
        (all.next(), all.next(), all.next(), all.next())
    else {
        return false;
    };
    let method = trimmed(method);
    is_version_of_any(version)
        && !method.iter().any(is_blank)
        && !is_other_protocol(method, &[target, b" ", version].concat())
}

/// Whether a word is a name, a slash and two numbers.
fn is_version_of_any(word: &[u8]) -> bool {
    let Some(slash) = word.iter().rposition(|byte| *byte == b'/') else {
        return false;
    };
    let mut numbers = word[slash + 1..].split(|byte| *byte == b'.');
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    slash > 0
        && numbers.next().is_some_and(is_number)
        && numbers.next().is_some_and(is_number)
        && numbers.next().is_none()
}

/// A first line of another protocol that looks like HTTP: a request of RTSP, SIP or ICAP for a target of that protocol, and the
/// options of a NATS client.
///
/// Some servers of HTTP read such a request, Node.js and Netty among them; their ports are to be declared.
fn is_other_protocol(method: &[u8], rest: &[u8]) -> bool {
    if method == b"CONNECT" && rest.starts_with(b"{") {
        return rest.ends_with(b"}");
    }
    let is_upper = method.iter().all(|byte| matches!(byte, b'A'..=b'Z' | b'_'));
    // OPTIONS is a method of all of them; the others of HTTP are of none.
    if !is_upper || is_known_method(method) && method != b"OPTIONS" {
        return false;
    }
    let mut words = words(rest);
    let (Some(target), Some(version)) = (words.next(), words.next()) else {
        return false;
    };
    let target = target.to_ascii_lowercase();
    OTHER_PROTOCOLS.iter().any(|(name, schemes)| {
        let is_named = version.get(..name.len()) == Some(name.as_bytes())
            && version.get(name.len()) == Some(&b'/');
        let is_target = |scheme: &&str| target.starts_with(scheme.as_bytes());
        let is_for_all = method == b"OPTIONS" && target == b"*";
        is_named && (is_for_all || schemes.iter().any(is_target))
    })
}

/// The name of HTTP/1 in the first message of a TLS client, between its length and the next extension.
fn is_alpn(text: &[u8], at: usize) -> bool {
    text[at - 1] == 8 && text[at..].starts_with(b"http/1.")
}

/// The positions of `HTTP/`, in upper or lower case.
fn versions(text: &[u8]) -> impl DoubleEndedIterator<Item = usize> {
    let starts = text.windows(VERSION.len()).enumerate();
    starts.filter_map(|(at, word)| is_version(word).then_some(at))
}

fn is_version(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(VERSION)
}

fn is_known_method(word: &[u8]) -> bool {
    METHODS.contains(&word)
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(is_space).filter(|word| !word.is_empty())
}

/// Bytes without those that servers skip before a request, a byte-order mark among them.
fn without_skipped(bytes: &[u8]) -> &[u8] {
    let is_skipped = |byte: &&u8| is_blank(byte) || BYTE_ORDER_MARKS.contains(byte);
    let skipped = bytes.iter().take_while(is_skipped);
    &bytes[skipped.count()..]
}

/// A line without the bytes at its ends that servers strip.
fn trimmed(line: &[u8]) -> &[u8] {
    let start = line.iter().position(|byte| !is_blank(byte));
    let end = line.iter().rposition(|byte| !is_blank(byte));
    match (start, end) {
        (Some(start), Some(end)) => &line[start..=end],
        _ => &[],
    }
}

/// Whether a version may begin after this byte: after no other character of ASCII.
fn may_separate(byte: u8) -> bool {
    byte <= b' ' || byte >= 0x7f
}

/// A byte that some server takes for whitespace between words.
fn is_space(byte: &u8) -> bool {
    matches!(byte, 0x09..=0x0d | 0x1c..=0x20 | 0x85 | 0xa0)
}

/// The start of a version.
const VERSION: &[u8] = b"HTTP/";

/// The methods of RFC 9110, section 9, and PATCH. A line that begins with one needs no version: HTTP/0.9 has none, and Python's
/// `http.server` takes any second word for a path, Node.js and WEBrick a few.
const METHODS: [&[u8]; 9] = [
    b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH",
];

/// Protocols whose requests have the form of HTTP's, with the beginnings of their targets (RFC 7826, RFC 3261, RFC 3507).
const OTHER_PROTOCOLS: [(&str, &[&str]); 3] = [
    ("RTSP", &["rtsp://", "rtsps://", "rtspu://"]),
    ("SIP", &["sip:", "sips:", "tel:"]),
    ("ICAP", &["icap://", "icaps://"]),
];

/// Those of UTF-8 and UTF-16.
const BYTE_ORDER_MARKS: [u8; 5] = [0xef, 0xbb, 0xbf, 0xfe, 0xff];

#[cfg(test)]
mod tests;
