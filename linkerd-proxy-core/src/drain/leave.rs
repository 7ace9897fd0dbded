//! The time between the decision to shut down and the signal: clients are asked to go, and new connections are served.

use super::{Node, Signal, cohorts::COHORTS};
use std::{
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::time::{MissedTickBehavior, interval};

/// Use of the drains below a drain, compared from one step to the next.
#[derive(Debug, Default, PartialEq, Eq)]
struct Usage {
    /// Drains with watches.
    busy: usize,
    /// The number of watches that were ever taken.
    taken: u64,
}

impl Signal {
    /// Lets the watches of the drains below leave, evenly over `window`; a watch that is taken meanwhile leaves about one window
    /// later. Returns when no watch was held or taken for a window. Cancel safe; signals no drain.
    ///
    /// The clients of a proxy that shuts down are asked to connect elsewhere at different moments, and clients that do not
    /// know yet are still served.
    pub async fn leave(&self, window: Duration) {
        let step = window / COHORTS as u32;
        if step.is_zero() {
            return;
        }
        let mut steps = interval(step);
        steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut quiet = 0;
        let mut last = self.node.usage_below();
        while quiet < COHORTS {
            steps.tick().await;
            self.node.leave_next_below();
            let usage = self.node.usage_below();
            let was_used = usage.busy > 0 || usage != last;
            quiet = if was_used { 0 } else { quiet + 1 };
            last = usage;
        }
    }
}

impl Node {
    fn below(&self) -> Vec<Arc<Self>> {
        let open = self.open.lock();
        open.children.iter().filter_map(Weak::upgrade).collect()
    }

    fn leave_next_below(&self) {
        for node in self.below() {
            node.open.lock().cohorts.leave_next();
            node.leave_next_below();
        }
    }

    fn usage_below(&self) -> Usage {
        let mut usage = Usage::default();
        for node in self.below() {
            let below = node.usage_below();
            let below_it = node.below();
            let open = node.open.lock();
            // Holds other than watches: of the drain itself, and of the drains below.
            let held = below_it.iter().filter(|node| node.hold.strong_count() > 0);
            let watches = open.hold.as_ref().map_or(0, Arc::strong_count);
            usage.busy += below.busy + usize::from(watches > 1 + held.count());
            usage.taken += below.taken + open.cohorts.joined();
        }
        usage
    }
}
