//! Counts stacks: `stack_create_total`, `stack_drop_total`.

use crate::metrics::StackFamilies;
use linkerd_proxy_core::metrics::{Counter, Labels};

/// The counters of one kind of outbound stack, for the calling thread.
#[derive(Clone, Debug)]
pub struct StackCounts {
    created: Counter,
    dropped: Counter,
}

/// A stack, counted as dropped when this is.
#[derive(Debug)]
pub struct CountedStack(Counter);

impl StackCounts {
    /// The counters of stacks of a protocol (`http`, `opaq`, `tls`) with a name (`balance`, `forward`, `fail`, `endpoint`).
    pub fn new(families: &StackFamilies, protocol: &'static str, name: &'static str) -> Self {
        let labels = Labels::new()
            .with_word("direction", "outbound")
            .with_word("protocol", protocol)
            .with_word("name", name);
        Self {
            created: families.created.get(labels.clone()),
            dropped: families.dropped.get(labels),
        }
    }

    /// Counts a stack as created.
    pub fn count(&self) -> CountedStack {
        self.created.incr();
        CountedStack(self.dropped.clone())
    }
}

impl Drop for CountedStack {
    fn drop(&mut self) {
        self.0.incr();
    }
}
