//! `/metrics`, for scrapers.

use super::{
    Admin,
    reply::{self, Reply},
    router::Asked,
};
use flate2::{Compression, write::GzEncoder};
use http::{HeaderValue, StatusCode, header};
use std::{
    io::{self, Write},
    time::Instant,
};

/// All metrics; compressed if the client can read that.
pub(super) fn metrics(admin: &Admin, asked: &Asked) -> Reply {
    let document = admin.registry.render(admin.retain, Instant::now());
    if !accepts_gzip(asked) {
        return reply::text(StatusCode::OK, document);
    }
    match gzip(document.as_bytes()) {
        Ok(compressed) => {
            let mut reply = reply::text(StatusCode::OK, compressed);
            let gzip = HeaderValue::from_static("gzip");
            reply.headers_mut().insert(header::CONTENT_ENCODING, gzip);
            reply
        }
        Err(error) => reply::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// Any mention counts, weights included, as with the incumbent.
fn accepts_gzip(asked: &Asked) -> bool {
    let accepted = asked.request.headers().get_all(header::ACCEPT_ENCODING);
    let mut accepted = accepted.iter().filter_map(|value| value.to_str().ok());
    accepted.any(|value| value.contains("gzip"))
}

fn gzip(document: &[u8]) -> io::Result<Vec<u8>> {
    // Metrics shrink to a tenth even at the fastest level, and this thread has other things to do.
    let room = Vec::with_capacity(document.len() / 8);
    let mut encoder = GzEncoder::new(room, Compression::fast());
    encoder.write_all(document)?;
    encoder.finish()
}
