//! Medians and spreads.

use serde::Serialize;

/// Summary of several rounds of one measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The median.
    pub median: f64,
    /// The smallest sample.
    pub min: f64,
    /// The largest sample.
    pub max: f64,
    /// All samples, in the order of measurement.
    pub samples: Vec<f64>,
}

impl Summary {
    /// Summarizes samples; `None` if there are none.
    pub fn new(samples: Vec<f64>) -> Option<Self> {
        let mut sorted = samples.clone();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
            _ => sorted[middle],
        };
        Some(Self {
            median,
            min,
            max,
            samples,
        })
    }
}

/// The value below which a share of all values lies. `sorted` is ascending and not empty.
pub fn quantile(sorted: &[u64], share: f64) -> u64 {
    let last = sorted.len().saturating_sub(1);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted[rank.saturating_sub(1).min(last)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_middles() {
        let median = |samples: &[f64]| Summary::new(samples.to_vec()).map(|s| s.median);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn quantiles_are_values_that_occurred() {
        let sorted: Vec<u64> = (1..=1000).collect();
        assert_eq!(quantile(&sorted, 0.5), 500);
        assert_eq!(quantile(&sorted, 0.99), 990);
        assert_eq!(quantile(&sorted, 0.999), 999);
        assert_eq!(quantile(&[7], 0.999), 7);
    }
}
