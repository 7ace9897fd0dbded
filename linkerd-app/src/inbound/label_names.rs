//! Names that peers choose, as labels.

use std::{cell::Cell, collections::HashMap, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Names that are told apart in labels, with the last use of each.
///
/// - **Bounds**: a number of names. A further name takes the place of one that was idle for ten minutes, or is [`OTHERS`].
#[derive(Debug)]
pub struct LabelNames {
    names: HashMap<Arc<str>, Cell<Instant>>,
    limit: usize,
}

impl LabelNames {
    /// No names yet, and later at most `limit`.
    pub fn new(limit: usize) -> Self {
        Self {
            names: HashMap::new(),
            limit,
        }
    }

    /// The label of a name that is used now.
    pub fn label(&mut self, name: &str, now: Instant) -> Arc<str> {
        if let Some((known, used)) = self.names.get_key_value(name) {
            used.set(now);
            return known.clone();
        }
        if self.names.len() >= self.limit {
            let oldest = self.names.iter().min_by_key(|(_, used)| used.get());
            let idle = oldest.filter(|(_, used)| now.saturating_duration_since(used.get()) >= IDLE);
            match idle.map(|(name, _)| name.clone()) {
                Some(idle) => self.names.remove(&idle),
                None => return OTHERS.into(),
            };
        }
        let name = Arc::<str>::from(name);
        self.names.insert(name.clone(), Cell::new(now));
        name
    }

    /// The number of names.
    pub fn len(&self) -> usize {
        self.names.len()
    }
}

/// The time after which a name gives way to another. Its series are dropped after the idle time of metrics.
const IDLE: Duration = Duration::from_secs(600);
/// The label of all other names.
pub const OTHERS: &str = "other";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_idle_names_give_way() {
        let mut names = LabelNames::new(100);
        let start = Instant::now();
        for number in 0..3_000 {
            let name = format!("{number}.test");
            let label = names.label(&name, start);
            let expected = if number < 100 { &name } else { OTHERS };
            assert_eq!(&*label, expected);
        }
        // Names in use stay.
        assert_eq!(&*names.label("0.test", start + IDLE / 2), "0.test");
        let later = start + IDLE;
        assert_eq!(&*names.label("new.test", later), "new.test");
        assert_eq!(&*names.label("0.test", later), "0.test");
        assert_eq!(names.len(), 100);
    }
}
