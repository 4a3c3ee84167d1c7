//! How long calls took: a histogram of fixed size, as HdrHistogram lays it out.
//!
//! Times are in microseconds, from 1 µs to days. Each power of two is cut into 64 buckets, so a quantile is at most 1/64
//! above the true value, whatever was recorded. The largest time is exact.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Buckets of a power of two, as a power of two.
const PRECISION: u32 = 6;
const BUCKETS: usize = 1 << PRECISION;

/// See the module documentation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latencies {
    /// Pairs of bucket and count, by bucket; empty buckets are left out.
    buckets: Vec<(u32, u64)>,
    /// All of them.
    count: u64,
    /// The largest, in microseconds.
    max_micros: u64,
}

impl Latencies {
    /// Adds one call.
    pub fn record(&mut self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
        self.add(bucket(micros), 1);
        self.count += 1;
        self.max_micros = self.max_micros.max(micros);
    }

    /// Adds what another one has recorded.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.buckets {
            self.add(*bucket, *count);
        }
        self.count += other.count;
        self.max_micros = self.max_micros.max(other.max_micros);
    }

    /// Returns the number of calls.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the time in milliseconds that this share of the calls did not exceed; none without calls.
    pub fn quantile_millis(&self, share: f64) -> Option<f64> {
        // Counts of calls are far below 2^53.
        let rank = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (bucket, count) in &self.buckets {
            seen += count;
            if seen >= rank {
                return Some(millis(highest(*bucket).min(self.max_micros)));
            }
        }
        None
    }

    /// Returns the longest time in milliseconds; none without calls.
    pub fn max_millis(&self) -> Option<f64> {
        (self.count > 0).then(|| millis(self.max_micros))
    }

    fn add(&mut self, bucket: u32, count: u64) {
        match self.buckets.binary_search_by_key(&bucket, |(bucket, _)| *bucket) {
            Ok(at) => self.buckets[at].1 += count,
            Err(at) => self.buckets.insert(at, (bucket, count)),
        }
    }
}

fn millis(micros: u64) -> f64 {
    micros as f64 / 1_000.0
}

/// The first 2 × 64 buckets are exact; from there on each power of two has 64.
fn bucket(micros: u64) -> u32 {
    let bits = u64::BITS - micros.leading_zeros();
    let shift = bits.saturating_sub(PRECISION + 1);
    let within = u32::try_from(micros >> shift).expect("seven bits are left");
    (shift << PRECISION) + within
}

/// The largest time of a bucket, in microseconds.
fn highest(bucket: u32) -> u64 {
    let shift = (bucket >> PRECISION).saturating_sub(1);
    let within = u64::from(bucket - (shift << PRECISION));
    debug_assert!(within < 2 * BUCKETS as u64, "{bucket}");
    ((within + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn recorded(micros: impl IntoIterator<Item = u64>) -> Latencies {
        let mut latencies = Latencies::default();
        micros.into_iter().for_each(|micros| latencies.record(Duration::from_micros(micros)));
        latencies
    }

    #[test]
    fn nothing_recorded_has_no_quantiles() {
        assert_eq!((Latencies::default().quantile_millis(0.5), Latencies::default().max_millis()), (None, None));
    }

    #[test]
    fn small_times_are_exact() {
        let latencies = recorded(1..=100);
        let quantile = |share| latencies.quantile_millis(share).unwrap();
        assert_eq!([quantile(0.0), quantile(0.5), quantile(0.95), quantile(1.0)], [0.001, 0.05, 0.095, 0.1]);
    }

    proptest! {
        #[test]
        fn a_time_is_in_its_bucket_and_no_bucket_is_wide(micros in 1u64..1 << 50) {
            let high = highest(bucket(micros));
            prop_assert!(high >= micros && high - micros <= micros / 64, "{micros} {high}");
            prop_assert_eq!(bucket(high), bucket(micros));
            prop_assert_eq!(bucket(high + 1), bucket(micros) + 1);
        }

        #[test]
        fn a_quantile_is_at_most_a_64th_above_the_true_one(mut micros in proptest::collection::vec(1u64..10_000_000, 1..200)) {
            let latencies = recorded(micros.iter().copied());
            micros.sort_unstable();
            for share in [0.5, 0.95, 0.99, 1.0] {
                let rank = ((micros.len() as f64 * share).ceil() as usize).clamp(1, micros.len());
                let exact = micros[rank - 1] as f64 / 1_000.0;
                let found = latencies.quantile_millis(share).unwrap();
                prop_assert!(found >= exact && found <= exact * (1.0 + 1.0 / 64.0) + 1e-9, "{share}: {exact} {found}");
            }
        }

        #[test]
        fn two_together_are_as_one(a in proptest::collection::vec(1u64..10_000_000, 0..50), b in proptest::collection::vec(1u64..10_000_000, 0..50)) {
            let mut merged = recorded(a.iter().copied());
            merged.merge(&recorded(b.iter().copied()));
            prop_assert_eq!(merged, recorded(a.into_iter().chain(b)));
        }
    }
}
