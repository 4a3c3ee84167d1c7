//! How many rows a call gets (OP-07): pure arithmetic over observed latency.
//!
//! The first call is a small probe. Later ones aim at [`TARGET`], and at no more than a quarter of the row deadline,
//! by a moving average of the time per row; one call is at most 16 times as large as the one before. `batch_size` is
//! a hard cap and nothing else. Where rows make vectorized calls raise, a call gets about as many rows as are likely to
//! have one of them: larger ones nearly always raise and are evaluated once more at each step of the bisection, smaller
//! ones are more calls.

use std::time::Duration;

/// Rows of the first call.
pub const PROBE_ROWS: usize = 10;
/// What one call should take: long enough that its overhead does not show, short enough to see a cancel.
pub const TARGET: Duration = Duration::from_millis(500);
/// The largest call.
pub const ROWS_MAX: usize = 1_000_000;
const GROWTH_MAX: usize = 16;
/// Weight of the newest observation.
const WEIGHT: f64 = 0.5;
/// After so many rows, what was seen of failing ones before counts half.
const FAILURES_HALF_ROWS: f64 = 4_096.0;
/// Rows of a call times the share of failing ones: near ln 2, half of the calls raise.
const FAILURES_PER_CALL: f64 = 0.7;

/// See the module documentation.
#[derive(Debug, Clone)]
pub struct CallSizer {
    cap: usize,
    target: Duration,
    last: usize,
    secs_per_row: Option<f64>,
    /// Rows of vectorized calls, and those of them that failed; both fade.
    settled: f64,
    failed: f64,
}

impl CallSizer {
    /// Starts with a probe. `row_timeout` is the row deadline, `batch_size` the option of that name.
    pub fn new(row_timeout: Duration, batch_size: Option<usize>) -> Self {
        let cap = batch_size.unwrap_or(ROWS_MAX).clamp(1, ROWS_MAX);
        Self { cap, target: TARGET.min(row_timeout / 4), last: 0, secs_per_row: None, settled: 0.0, failed: 0.0 }
    }

    /// Returns how many rows the next call should have, at least 1.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the cap before the cast")]
    #[expect(clippy::cast_precision_loss, reason = "the cap is a million")]
    pub fn next(&self) -> usize {
        let Some(secs) = self.secs_per_row else { return PROBE_ROWS.min(self.cap) };
        let wanted = self.target.as_secs_f64() / secs.max(1e-9);
        let wanted = wanted.min(self.failing_cap()).clamp(1.0, self.cap as f64) as usize;
        wanted.min(self.last.max(1).saturating_mul(GROWTH_MAX)).clamp(1, self.cap)
    }

    /// Takes note of a call that returned.
    #[expect(clippy::cast_precision_loss, reason = "rows of a call are at most a million")]
    pub fn observe(&mut self, rows: usize, took: Duration) {
        if rows == 0 {
            return;
        }
        let secs = took.as_secs_f64() / rows as f64;
        self.secs_per_row = Some(self.secs_per_row.map_or(secs, |known| known * (1.0 - WEIGHT) + secs * WEIGHT));
        self.last = rows;
    }

    /// Takes note of rows of vectorized calls whose outcome is known.
    #[expect(clippy::cast_precision_loss, reason = "rows of a call are at most a million")]
    pub fn settled(&mut self, rows: usize, failed: usize) {
        let fades = 0.5_f64.powf(rows as f64 / FAILURES_HALF_ROWS);
        self.settled = self.settled * fades + rows as f64;
        self.failed = self.failed * fades + failed as f64;
    }

    /// Rows of a call as failing ones are about; no bound while there are none.
    fn failing_cap(&self) -> f64 {
        // One row that failed long ago is no rule.
        if self.failed < 0.25 { f64::INFINITY } else { FAILURES_PER_CALL * self.settled / self.failed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn op_07_a_probe_comes_first_and_growth_is_bounded() {
        let mut sizer = CallSizer::new(Duration::from_secs(300), None);
        let mut sizes = Vec::new();
        for _ in 0..5 {
            let rows = sizer.next();
            sizes.push(rows);
            sizer.observe(rows, Duration::from_micros(rows as u64));
        }
        assert_eq!(sizes[..4], [10, 160, 2_560, 40_960]);
        assert!((400_000..=600_000).contains(&sizes[4]), "{sizes:?}");
    }

    #[test]
    fn op_07_a_call_takes_at_most_a_quarter_of_the_deadline() {
        let mut sizer = CallSizer::new(Duration::from_secs(1), None);
        sizer.observe(10, Duration::from_millis(100));
        assert_eq!(sizer.next(), 25, "10 ms a row, 250 ms a call");
        sizer.observe(10, Duration::from_secs(10));
        assert_eq!(sizer.next(), 1);
    }

    #[test]
    fn err_05_calls_get_as_many_rows_as_one_failing_row_is_likely_in() {
        let mut sizer = CallSizer::new(Duration::from_secs(300), None);
        for _ in 0..8 {
            sizer.observe(8_192, Duration::from_millis(8));
            sizer.settled(8_192, 0);
        }
        assert!(sizer.next() > 100_000);
        for _ in 0..100 {
            sizer.settled(99, 0);
            sizer.settled(1, 1);
        }
        assert!((60..=110).contains(&sizer.next()), "{}", sizer.next());
        sizer.settled(100_000, 0);
        assert!(sizer.next() > 100_000, "no row has failed for long");
    }

    #[test]
    fn op_04_batch_size_is_a_hard_cap() {
        let mut sizer = CallSizer::new(Duration::from_secs(300), Some(3));
        assert_eq!(sizer.next(), 3);
        sizer.observe(3, Duration::from_nanos(3));
        assert_eq!(sizer.next(), 3);
    }
}
