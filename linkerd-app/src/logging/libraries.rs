//! A limit of the warnings of libraries, which peers can provoke.

use super::limit::LogLimit;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};
use tokio::time::Instant;
use tracing::{
    Event, Level, Metadata, Subscriber, level_filters::LevelFilter, subscriber::Interest,
};
use tracing_subscriber::layer::{Context, Filter};

/// Lets ten warnings and errors per second through, of all libraries together, and counts the others. One frame of 17 bytes makes
/// h2 warn, for example. Lower levels are on only by request, and the proxy's own lines have limits where a peer can provoke
/// them. Clones share the limit.
#[derive(Clone, Debug, Default)]
pub struct LibraryLimit(Arc<LibraryLines>);

#[derive(Debug, Default)]
struct LibraryLines {
    limit: LogLimit,
    left_out: AtomicU64,
}

impl LibraryLimit {
    /// The lines that were left out so far.
    pub fn left_out(&self) -> u64 {
        self.0.left_out.load(Relaxed)
    }

    fn admits(&self, metadata: &Metadata<'_>, now: Instant) -> bool {
        if !is_limited(metadata) || self.0.limit.take(now).is_some() {
            return true;
        }
        self.0.left_out.fetch_add(1, Relaxed);
        false
    }
}

fn is_limited(metadata: &Metadata<'_>) -> bool {
    *metadata.level() <= Level::WARN && !metadata.target().starts_with(OURS)
}

impl<S: Subscriber> Filter<S> for LibraryLimit {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        match is_limited(metadata) {
            true => Interest::sometimes(),
            false => Interest::always(),
        }
    }

    /// All levels: without a hint, that of the filter beside this one would be lost.
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        self.admits(event.metadata(), Instant::now())
    }
}

/// The beginning of our crates' names.
const OURS: &str = "linkerd";

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::{Layer, layer::SubscriberExt};

    #[test]
    fn a_library_that_a_peer_makes_warn_does_not_fill_the_log() {
        let limit = LibraryLimit::default();
        let lines = Arc::new(AtomicU64::new(0));
        let subscriber =
            tracing_subscriber::registry().with(Lines(lines.clone()).with_filter(limit.clone()));
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..100 {
                tracing::warn!(target: "h2::proto::ping_pong", "recv PING ack that we never sent");
                tracing::debug!(target: "h2::proto", "asked for");
                tracing::warn!(target: "linkerd_app::proxy", "ours");
            }
        });
        let (shown, left_out) = (lines.load(Relaxed), limit.left_out());
        assert_eq!(shown + left_out, 300);
        // A second may end meanwhile.
        assert!((80..=90).contains(&left_out), "{left_out}");
    }

    struct Lines(Arc<AtomicU64>);

    impl<S: Subscriber> Layer<S> for Lines {
        fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
            self.0.fetch_add(1, Relaxed);
        }
    }
}
