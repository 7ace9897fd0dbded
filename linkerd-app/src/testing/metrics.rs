//! Metric families of a test, and their values.

use crate::metrics::Families;
use linkerd_proxy_core::metrics::Registry;
use std::time::Duration;
use tokio::time::Instant;

/// All families of the data path, in a separate registry.
pub struct TestMetrics {
    /// The families.
    pub families: Families,
    registry: Registry,
}

impl TestMetrics {
    /// Families without series.
    pub fn new() -> Self {
        let registry = Registry::new();
        Self {
            families: Families::register(&registry),
            registry,
        }
    }

    /// The sum of the series of this name that have all of `labels`, each written as in a scrape: `error="IO"`.
    pub fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let document = self.registry.render(Duration::MAX, Instant::now());
        let lines = document.lines().filter(|line| {
            let rest = line.strip_prefix(name);
            let is_name = rest.is_some_and(|rest| rest.starts_with(['{', ' ']));
            is_name && labels.iter().all(|label| line.contains(label))
        });
        let value = |line: &str| line.rsplit(' ').next()?.parse::<f64>().ok();
        lines.filter_map(value).sum()
    }
}
