//! One series of a family: its handles and the sum of dropped ones.

use super::Metric;

/// One series. A proxy may have 50,000, almost all with one handle or none, which take few bytes.
#[derive(Debug)]
pub(super) enum Series<M: Metric> {
    /// A single handle.
    One(M),
    /// Several handles, now or before.
    Many(Box<Many<M>>),
    /// No handle is left.
    Orphaned {
        /// The sum of the dropped handles.
        past: M::Sum,
        /// When the last one was dropped, in the family's time.
        since: u32,
    },
}

#[derive(Debug)]
pub(super) struct Many<M: Metric> {
    /// The sum of dropped handles.
    past: M::Sum,
    handles: Vec<M>,
}

impl<M: Metric> Series<M> {
    /// Adds a handle.
    pub(super) fn push(&mut self, handle: M) {
        let none = Self::Orphaned {
            past: M::Sum::default(),
            since: 0,
        };
        let mut many = match std::mem::replace(self, none) {
            Self::Many(many) => many,
            Self::One(first) => Many::new(M::Sum::default(), vec![first]),
            Self::Orphaned { past, .. } => Many::new(past, Vec::new()),
        };
        many.push(handle);
        *self = Self::Many(many);
    }

    /// When the last handle was dropped; `now` if the drop is only noticed now.
    pub(super) fn orphaned_since(&mut self, now: u32) -> Option<u32> {
        let past = match self {
            Self::Orphaned { since, .. } => return Some(*since),
            Self::One(handle) if !handle.is_last() => return None,
            Self::One(handle) => {
                let mut past = M::Sum::default();
                handle.add_to(&mut past);
                past
            }
            Self::Many(many) => {
                many.fold();
                if !many.handles.is_empty() {
                    return None;
                }
                std::mem::take(&mut many.past)
            }
        };
        *self = Self::Orphaned { past, since: now };
        Some(now)
    }

    /// The sum of all handles.
    pub(super) fn sum_to(&self, sum: &mut M::Sum) {
        let handles = match self {
            Self::One(handle) => {
                sum.clone_from(&M::Sum::default());
                std::slice::from_ref(handle)
            }
            Self::Many(many) => {
                sum.clone_from(&many.past);
                &many.handles
            }
            Self::Orphaned { past, .. } => {
                sum.clone_from(past);
                &[]
            }
        };
        for handle in handles {
            handle.add_to(sum);
        }
    }
}

impl<M: Metric> Many<M> {
    fn new(past: M::Sum, handles: Vec<M>) -> Box<Self> {
        Box::new(Self { past, handles })
    }

    /// Adds a handle. Looks for dropped handles only when the vector is full, so that each handle is checked a few times, not
    /// at every addition.
    fn push(&mut self, handle: M) {
        if self.handles.len() == self.handles.capacity() {
            self.fold();
            self.handles.reserve_exact(self.handles.len().max(1));
        }
        self.handles.push(handle);
    }

    /// Adds the counts of dropped handles to `past`, so that handles do not pile up.
    fn fold(&mut self) {
        let past = &mut self.past;
        self.handles.retain(|handle| {
            let live = !handle.is_last();
            if !live {
                handle.add_to(past);
            }
            live
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Counter, Gauge, Histogram};

    #[test]
    fn most_take_few_bytes() {
        assert_eq!(size_of::<Series<Counter>>(), 16);
        assert_eq!(size_of::<Series<Gauge>>(), 16);
        assert_eq!(size_of::<Series<Histogram>>(), 32);
    }

    fn sum(series: &Series<Counter>) -> u64 {
        let mut sum = 77;
        series.sum_to(&mut sum);
        sum
    }

    #[test]
    fn counts_go_on_whoever_comes_and_goes() {
        let new = || {
            let counter = Counter::new(());
            counter.incr();
            counter
        };
        let first = new();
        let mut series = Series::One(first.clone());
        assert_eq!((sum(&series), series.orphaned_since(1)), (1, None));
        drop(first);
        assert_eq!((series.orphaned_since(2), sum(&series)), (Some(2), 1));
        assert_eq!(series.orphaned_since(3), Some(2));
        let handles = [(); 3].map(|()| new());
        for (count, handle) in (2..).zip(&handles) {
            series.push(handle.clone());
            assert_eq!((sum(&series), series.orphaned_since(4)), (count, None));
        }
        drop(handles);
        assert_eq!((sum(&series), series.orphaned_since(5)), (4, Some(5)));
        assert_eq!((sum(&series), series.orphaned_since(6)), (4, Some(5)));
    }

    #[test]
    fn handles_that_are_gone_do_not_pile_up() {
        let mut series = Series::One(Counter::new(()));
        for _ in 0..1000 {
            let counter = Counter::new(());
            series.push(counter.clone());
            counter.incr();
        }
        assert!(matches!(&series, Series::Many(many) if many.handles.capacity() == 1));
        assert_eq!(sum(&series), 1000);
    }
}
