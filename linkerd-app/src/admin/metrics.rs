//! `/metrics`: the document for scrapers.

use super::{
    accept,
    context::AdminContext,
    reply::{self, Reply},
    request::AdminRequest,
};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderValue, StatusCode, header};
use http_body::{Body, Frame};
use linkerd_proxy_core::{metrics::Document, task::spawn_local, yielding::TimeSlice};
use std::{
    convert::Infallible,
    io::Write,
    pin::Pin,
    rc::Rc,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// All metrics; compressed if the client accepts it.
pub(super) fn metrics(admin: &AdminContext, request: &AdminRequest) -> Reply {
    let gzip = accepts_gzip(request);
    let has_native_histograms = admin.registry.has_native_histograms();
    let format = accept::format(request.http.headers(), has_native_histograms);
    let document = admin
        .registry
        .document(format, admin.retain, Instant::now());
    let mut scrape = Scrape::new(document, gzip);
    let first = scrape.next();
    let mut reply = match scrape.ended {
        // Most documents are one piece: they have a length.
        true => reply::text(StatusCode::OK, first),
        false => {
            scrape.made = Some(first);
            let progress = Arc::downgrade(&scrape.pieces);
            spawn_local(cut_off_stalled(progress, request.client.stalled.clone()));
            reply::text_stream(StatusCode::OK, scrape)
        }
    };
    if let Some(kind) = accept::content_type(format) {
        let kind = HeaderValue::from_static(kind);
        reply.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    if gzip {
        let gzip = HeaderValue::from_static("gzip");
        reply.headers_mut().insert(header::CONTENT_ENCODING, gzip);
    }
    reply
}

/// Any mention counts, weights included, as with the incumbent.
fn accepts_gzip(request: &AdminRequest) -> bool {
    let accepted = request.http.headers().get_all(header::ACCEPT_ENCODING);
    let mut accepted = accepted.iter().filter_map(|value| value.to_str().ok());
    accepted.any(|value| value.contains("gzip"))
}

/// Closes the connection of a reader that takes no piece for [`STALLED`]. Series without an owner stay as long as a document
/// is open.
async fn cut_off_stalled(progress: Weak<AtomicUsize>, stalled: Rc<Notify>) {
    let mut before = 0;
    loop {
        tokio::time::sleep(STALLED).await;
        let Some(pieces) = progress.upgrade() else {
            return;
        };
        let pieces = pieces.load(Relaxed);
        if pieces == before {
            return stalled.notify_one();
        }
        before = pieces;
    }
}

/// A scraper reads within seconds.
const STALLED: Duration = Duration::from_secs(30);

/// A document as a body, piece by piece.
struct Scrape {
    /// The number of pieces so far.
    pieces: Arc<AtomicUsize>,
    document: Document,
    piece: Vec<u8>,
    gzip: Option<GzEncoder<Vec<u8>>>,
    /// A finished piece that the server has not taken yet.
    made: Option<Vec<u8>>,
    ended: bool,
    /// Whether the task has yielded since the last piece.
    has_yielded: bool,
    /// This thread's slice: workers may need its core.
    slice: TimeSlice,
}

impl Scrape {
    fn new(document: Document, gzip: bool) -> Self {
        // Metrics shrink to a tenth even at the fastest level, and this thread has other work.
        let encoder = || GzEncoder::new(Vec::new(), Compression::fast());
        Self {
            pieces: Arc::default(),
            document,
            piece: Vec::new(),
            gzip: gzip.then(encoder),
            made: None,
            ended: false,
            has_yielded: false,
            slice: TimeSlice::begin(),
        }
    }

    /// The next bytes; may be empty before the end.
    fn next(&mut self) -> Vec<u8> {
        self.pieces.fetch_add(1, Relaxed);
        self.ended = !self.document.write(&mut self.piece);
        let Some(gzip) = &mut self.gzip else {
            return std::mem::take(&mut self.piece);
        };
        let written = gzip.write_all(&self.piece);
        let ended = if self.ended {
            gzip.try_finish()
        } else {
            Ok(())
        };
        written.and(ended).expect("writing to memory does not fail");
        self.piece.clear();
        std::mem::take(gzip.get_mut())
    }
}

impl Body for Scrape {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        loop {
            if let Some(bytes) = self.made.take().filter(|bytes| !bytes.is_empty()) {
                return Poll::Ready(Some(Ok(Frame::data(bytes.into()))));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            if !std::mem::replace(&mut self.has_yielded, true) {
                // Tasks for the control plane's streams share this thread.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.has_yielded = false;
            self.slice.yield_if_over();
            self.made = Some(self.next());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::task::LocalSet;

    /// Whether a reader is cut off within two minutes, in which it takes a piece at each of these seconds.
    async fn is_cut_off(takes: &[u64]) -> bool {
        let test = async {
            let (pieces, stalled) = (Arc::new(AtomicUsize::new(1)), Rc::new(Notify::new()));
            spawn_local(cut_off_stalled(Arc::downgrade(&pieces), stalled.clone()));
            let start = Instant::now();
            for second in takes {
                let at = start + Duration::from_secs(*second);
                tokio::select! {
                    () = stalled.notified() => return true,
                    () = tokio::time::sleep_until(at) => pieces.fetch_add(1, Relaxed),
                };
            }
            let end = start + Duration::from_secs(120);
            tokio::time::timeout_at(end, stalled.notified())
                .await
                .is_ok()
        };
        LocalSet::new().run_until(test).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_is_cut_off_and_a_slow_one_is_not() {
        assert!(is_cut_off(&[]).await);
        assert!(is_cut_off(&[20, 40]).await);
        assert!(!is_cut_off(&[20, 40, 65, 95, 119]).await);
    }
}
