//! Buckets of native histograms: exponential ones, eight to each power of two (schema 3 of Prometheus).
//!
//! Each bucket is 9 % wider than the one before, from 8 us to 131 s for times, or from one byte to 16 MB. Smaller values count as
//! zero, and larger ones in the last bucket.

use super::figures::HistogramUnit;

/// Counters of a native histogram: one for values that count as zero, and one for each bucket.
pub(super) const NATIVE_CELLS: usize = 1 + OCTAVES * STEPS.len();

/// The resolution as a Prometheus schema: two to the power of this many buckets double the value.
pub(super) const SCHEMA: i32 = 3;

/// The non-empty buckets, in the form of the protobuf format.
#[derive(Debug, Default, PartialEq)]
pub(super) struct NativeBuckets {
    /// Runs of buckets: the distance from the end of the previous run, or from bucket 0, and the length.
    pub spans: Vec<(i32, u32)>,
    /// The count of each of these buckets, minus the count of the previous one.
    pub deltas: Vec<i64>,
}

/// The counter of a value, as observed.
#[inline]
pub(super) fn native_cell(unit: HistogramUnit, observed: u64) -> usize {
    let value = observed as f64 / unit.divisor();
    if value <= zero_threshold(unit) {
        return 0;
    }
    // A finite number above zero: a power of two, times a number from one to two.
    let bits = value.to_bits();
    let power = (bits >> MANTISSA_BITS) as i32 - ONE_POWER;
    let times = f64::from_bits(bits & ((1 << MANTISSA_BITS) - 1) | 1_f64.to_bits());
    let step = STEPS.iter().filter(|bound| times > **bound).count();
    let first = first_power(unit);
    let octave = usize::try_from(power - first).unwrap_or(0);
    (octave * STEPS.len() + step).min(NATIVE_CELLS - 1)
}

/// The greatest value that counts as zero, as written.
pub(super) fn zero_threshold(unit: HistogramUnit) -> f64 {
    f64::from(first_power(unit)).exp2()
}

/// The buckets of counters.
pub(super) fn native_buckets(unit: HistogramUnit, cells: &[u64]) -> NativeBuckets {
    let mut buckets = NativeBuckets::default();
    let first = first_power(unit) * STEPS.len() as i32;
    // The bucket after the last run.
    let mut next = 0;
    let mut before = 0;
    let used = (first..).zip(cells).skip(1);
    for (bucket, count) in used.filter(|(_, count)| **count > 0) {
        match buckets.spans.last_mut() {
            Some((_, length)) if bucket == next => *length += 1,
            _ => buckets.spans.push((bucket - next, 1)),
        }
        next = bucket + 1;
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        buckets.deltas.push(count - before);
        before = count;
    }
    buckets
}

/// The power of two up to which values, as written, count as zero.
fn first_power(unit: HistogramUnit) -> i32 {
    match unit {
        HistogramUnit::Seconds => -17,
        HistogramUnit::Milliseconds => -7,
        HistogramUnit::Bytes => 0,
    }
}

/// The number of octaves with buckets.
const OCTAVES: usize = 24;

/// The bounds between one and two at which the buckets of an octave begin: powers of the eighth root of two.
const STEPS: [f64; 1 << SCHEMA] = [
    1.0,
    1.090_507_732_665_257_7,
    1.189_207_115_002_721,
    1.296_839_554_651_009_6,
    std::f64::consts::SQRT_2,
    1.542_210_825_407_940_7,
    1.681_792_830_507_429,
    1.834_008_086_409_342_4,
];

/// Bits of a double's mantissa (IEEE 754).
const MANTISSA_BITS: u32 = 52;
/// The exponent of one.
const ONE_POWER: i32 = 1023;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UNITS: [HistogramUnit; 3] = [
        HistogramUnit::Seconds,
        HistogramUnit::Milliseconds,
        HistogramUnit::Bytes,
    ];

    /// The upper bound of a counter's bucket, as Prometheus defines it.
    fn bound(unit: HistogramUnit, cell: usize) -> f64 {
        let bucket = first_power(unit) * 8 + cell as i32;
        (f64::from(bucket) / 8.0).exp2()
    }

    #[test]
    fn ends_of_the_scale() {
        for unit in UNITS {
            assert_eq!(native_cell(unit, 0), 0);
            assert_eq!(native_cell(unit, u64::MAX), NATIVE_CELLS - 1);
        }
        // A power of two is the upper bound of its bucket.
        assert_eq!(native_cell(HistogramUnit::Bytes, 1), 0);
        assert_eq!(native_cell(HistogramUnit::Bytes, 2), 8);
        assert_eq!(native_cell(HistogramUnit::Bytes, 1024), 80);
        assert_eq!(native_cell(HistogramUnit::Bytes, 1025), 81);
    }

    #[test]
    fn runs_of_buckets_are_spans() {
        let mut cells = vec![0; NATIVE_CELLS];
        (cells[0], cells[9], cells[10], cells[13]) = (100, 5, 2, 7);
        let buckets = native_buckets(HistogramUnit::Bytes, &cells);
        assert_eq!(buckets.spans, [(9, 2), (2, 1)]);
        assert_eq!(buckets.deltas, [5, -3, 5]);
        let seconds = native_buckets(HistogramUnit::Seconds, &cells);
        assert_eq!(seconds.spans, [(9 - 17 * 8, 2), (2, 1)]);
        cells.fill(0);
        assert_eq!(
            native_buckets(HistogramUnit::Bytes, &cells),
            NativeBuckets::default()
        );
    }

    proptest! {
        #[test]
        fn a_value_is_in_the_bucket_whose_bounds_enclose_it(observed in 0..200_000_000_000_u64) {
            for unit in UNITS {
                let value = observed as f64 / unit.divisor();
                let cell = native_cell(unit, observed);
                if cell < NATIVE_CELLS - 1 {
                    prop_assert!(value <= bound(unit, cell) * (1.0 + 1e-12), "{value} {cell}");
                }
                if cell > 0 {
                    prop_assert!(value >= bound(unit, cell - 1) * (1.0 - 1e-12), "{value} {cell}");
                }
            }
        }
    }
}
