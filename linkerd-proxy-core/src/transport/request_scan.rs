//! The search for a request line in a connection that is not HTTP.
//!
//! The bytes are passed on as they come, except those that would complete a line which some server reads as a request line
//! ([`is_request_line`]). So a protocol that is not HTTP is not delayed, and no request bypasses the proxy's checks.

use super::request_line::{has_version, is_blank, is_request_line};
use bytes::{Bytes, BytesMut};

/// The search in the bytes of one client.
///
/// Lines are searched that begin within 1 KiB of the first byte that no server skips, or of the end of a header of the PROXY
/// protocol. The first of them is searched for 64 KiB.
///
/// - **Bounds**: 8 KiB of the client's bytes, and 8 KiB of a line.
#[derive(Debug)]
pub struct RequestScan {
    /// The bytes from the start on, as long as they fit.
    kept: BytesMut,
    seen: usize,
    place: Place,
    /// The unfinished line, or the end of a long one.
    line: Vec<u8>,
    /// The number of bytes since the start of the first line.
    searched: usize,
    server: FirstServerBytes,
}

/// The effect of bytes from the server that come before any from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstServerBytes {
    /// They end the search: no server of HTTP speaks first.
    EndSearch,
    /// None: the server may have answered a CONNECT as any other request, and go on with a body.
    Ignore,
}

/// The result of a search in the next bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Scanned {
    /// All of them may pass.
    Pass,
    /// They complete a request line: none of them may pass.
    RequestLine,
}

/// The place of the next byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the first line.
    Start,
    /// In a header of the PROXY protocol, version 2, with so many bytes to come.
    ProxyHeader {
        left: usize,
    },
    FirstLine,
    /// In a first line that is too long to be kept.
    LongFirstLine,
    LaterLine,
    /// Behind all that is searched.
    Over,
}

impl RequestScan {
    /// A search from the first byte of a client on.
    pub fn new(server: FirstServerBytes) -> Self {
        Self {
            kept: BytesMut::new(),
            seen: 0,
            place: Place::Start,
            line: Vec::new(),
            searched: 0,
            server,
        }
    }

    /// Whether no further bytes are searched.
    pub fn is_over(&self) -> bool {
        self.place == Place::Over
    }

    /// Whether a line has ended.
    pub fn has_line(&self) -> bool {
        matches!(self.place, Place::LaterLine | Place::Over)
    }

    /// Notes bytes of the server.
    pub fn server_spoke(&mut self) {
        if self.server == FirstServerBytes::EndSearch && self.seen == 0 {
            self.place = Place::Over;
        }
    }

    /// Searches the next bytes of the client.
    pub fn scan(&mut self, bytes: &[u8]) -> Scanned {
        if self.kept.len() == self.seen && bytes.len() <= LIMIT - self.kept.len() {
            self.kept.extend_from_slice(bytes);
        }
        self.seen += bytes.len();
        for byte in bytes {
            if self.next(*byte) == Scanned::RequestLine {
                return Scanned::RequestLine;
            }
            if self.is_over() {
                (self.kept, self.line) = Default::default();
                break;
            }
        }
        Scanned::Pass
    }

    /// Searches the line that the client has ended with its side of the connection: some servers read it all the same.
    pub fn ended(&self) -> Scanned {
        match self.is_request_line() {
            true => Scanned::RequestLine,
            false => Scanned::Pass,
        }
    }

    /// The client's bytes from the start on, if they were kept.
    pub fn into_bytes(self) -> Option<Bytes> {
        (self.kept.len() == self.seen).then(|| self.kept.freeze())
    }

    fn next(&mut self, byte: u8) -> Scanned {
        match self.place {
            Place::Start => self.next_at_start(byte),
            Place::ProxyHeader { left: 1 } => self.start(),
            Place::ProxyHeader { left } => self.place = Place::ProxyHeader { left: left - 1 },
            Place::FirstLine | Place::LongFirstLine | Place::LaterLine => {
                self.searched += 1;
                if byte == b'\n' {
                    return self.line_ended();
                }
                // Alone, it ends a line for some servers, and is whitespace for others.
                if byte == b'\r' && self.is_request_line() {
                    return Scanned::RequestLine;
                }
                self.line.push(byte);
                if self.line.len() == LIMIT {
                    return self.line_is_long();
                }
            }
            Place::Over => {}
        }
        Scanned::Pass
    }

    fn start(&mut self) {
        self.place = Place::Start;
        self.line.clear();
        self.searched = 0;
    }

    fn next_at_start(&mut self, byte: u8) {
        if self.line.len() == PROXY_HEADER {
            self.line.remove(0);
        }
        self.line.push(byte);
        self.searched += 1;
        let is_whole = self.searched == self.line.len();
        let signature = self.line.len().min(PROXY_SIGNATURE.len());
        if is_whole && self.line[..signature] == PROXY_SIGNATURE[..signature] {
            if let [.., high, low] = self.line[..]
                && self.line.len() == PROXY_HEADER
            {
                match usize::from(u16::from_be_bytes([high, low])) {
                    0 => self.start(),
                    left => self.place = Place::ProxyHeader { left },
                }
            }
        } else if !is_blank(&byte) {
            // What one server skips is the first word for another.
            self.place = Place::FirstLine;
            self.searched = 0;
        }
    }

    fn line_ended(&mut self) -> Scanned {
        if self.is_request_line() {
            return Scanned::RequestLine;
        }
        match self.place {
            // A connection begins behind the header.
            Place::FirstLine if self.line.starts_with(b"PROXY ") => self.start(),
            _ if self.searched >= WINDOW => self.place = Place::Over,
            _ => self.place = Place::LaterLine,
        }
        self.line.clear();
        Scanned::Pass
    }

    fn is_request_line(&self) -> bool {
        match self.place {
            Place::FirstLine => is_request_line(&self.line, true),
            Place::LongFirstLine => has_version(&self.line),
            Place::LaterLine => is_request_line(&self.line, false),
            Place::Start | Place::ProxyHeader { .. } | Place::Over => false,
        }
    }

    fn line_is_long(&mut self) -> Scanned {
        if self.place == Place::LaterLine || self.searched >= LONG {
            self.place = Place::Over;
            return Scanned::Pass;
        }
        if has_version(&self.line) {
            return Scanned::RequestLine;
        }
        self.place = Place::LongFirstLine;
        // A version may go on behind the limit.
        self.line.drain(..LIMIT - 8);
        Scanned::Pass
    }
}

/// The number of bytes within which lines begin that are searched.
const WINDOW: usize = 1024;
/// The number of bytes that are kept, of the client and of a line: the longest request line of most servers.
const LIMIT: usize = 8 * 1024;
/// The number of bytes of a first line that are searched: the longest that Python's `http.server` reads.
const LONG: usize = 64 * 1024;
/// The start of a header of the PROXY protocol, version 2: a signature, and four bytes of which two are a length.
const PROXY_SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const PROXY_HEADER: usize = 16;

#[cfg(test)]
mod tests;
