//! How many failed rows a refresh tolerates (ERR-04): pure counting.
//!
//! A *part* is a range of rows that is published as a whole. Without limits of its own, a refresh that skips fails when
//! more than half of the first 1,000 evaluated rows of a part failed (and cumulatively after that, and at the end of a
//! smaller part), or when the first 100 evaluated rows of a part all failed. `max_failed_fraction` and
//! `max_failed_rows` replace the fraction and also count over the whole job; the guard of the first 100 rows stays.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Rows of a part that the fraction is first checked after.
pub const SAMPLE_ROWS: u64 = 1_000;
/// Rows at the start of a part that must not all fail.
pub const GUARD_ROWS: u64 = 100;
const DEFAULT_FRACTION: f64 = 0.5;

/// Limits of one refresh, as its options give them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FailureLimits {
    /// `max_failed_fraction`, 0 to 1.
    pub fraction: Option<f64>,
    /// `max_failed_rows`.
    pub rows: Option<u64>,
}

/// Why a refresh that skips row errors failed all the same.
#[derive(Debug, Clone, PartialEq)]
pub enum Exceeded {
    /// More than this share of the evaluated rows failed.
    Fraction {
        /// Failed rows.
        failed: u64,
        /// Evaluated rows.
        evaluated: u64,
        /// The share that was allowed.
        allowed: f64,
    },
    /// More than this number of rows failed.
    Rows {
        /// Failed rows.
        failed: u64,
        /// The number that was allowed.
        allowed: u64,
    },
    /// The first rows of a part failed, all of them.
    Guard,
}

impl fmt::Display for Exceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fraction { failed, evaluated, allowed } => {
                write!(f, "{failed} of {evaluated} evaluated rows failed, more than a fraction of {allowed}")
            }
            Self::Rows { failed, allowed } => write!(f, "{failed} rows failed, more than {allowed}"),
            Self::Guard => write!(f, "the first {GUARD_ROWS} evaluated rows failed"),
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    evaluated: u64,
    failed: u64,
}

/// Counts over all parts of a job; shared by its workers.
#[derive(Debug, Clone)]
pub struct JobLimits {
    limits: FailureLimits,
    counts: Arc<Mutex<Counts>>,
}

impl JobLimits {
    /// Starts counting.
    pub fn new(limits: FailureLimits) -> Self {
        Self { limits, counts: Arc::default() }
    }

    /// Starts a part.
    pub fn part(&self) -> PartLimits {
        PartLimits { job: self.clone(), counts: Counts::default() }
    }

    /// Counts rows that an earlier attempt of the job has evaluated.
    pub fn resume(&self, evaluated: u64, failed: u64) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.evaluated += evaluated;
        counts.failed += failed;
    }

    /// Returns the number of failed rows so far.
    pub fn failed(&self) -> u64 {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).failed
    }

    /// Checks the whole job at its end.
    ///
    /// # Errors
    /// The limit that was exceeded.
    pub fn finish(&self) -> Result<(), Exceeded> {
        let counts = *self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        self.limits.fraction.map_or(Ok(()), |allowed| ensure_fraction(counts, allowed))
    }

    fn add(&self, failed: bool) -> Result<(), Exceeded> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.evaluated += 1;
        counts.failed += u64::from(failed);
        let counts = *counts;
        if let Some(allowed) = self.limits.rows.filter(|allowed| counts.failed > *allowed) {
            return Err(Exceeded::Rows { failed: counts.failed, allowed });
        }
        match self.limits.fraction {
            Some(allowed) if counts.evaluated >= SAMPLE_ROWS => ensure_fraction(counts, allowed),
            _ => Ok(()),
        }
    }
}

/// Counts of one part.
#[derive(Debug)]
pub struct PartLimits {
    job: JobLimits,
    counts: Counts,
}

impl PartLimits {
    /// Counts the rows of one call in their order, `true` for a failed one.
    ///
    /// # Errors
    /// The limit that was exceeded. The part must then not be published.
    pub fn add(&mut self, outcomes: impl IntoIterator<Item = bool>) -> Result<(), Exceeded> {
        for failed in outcomes {
            self.counts.evaluated += 1;
            self.counts.failed += u64::from(failed);
            self.job.add(failed)?;
            if self.counts.evaluated == GUARD_ROWS && self.counts.failed == GUARD_ROWS {
                return Err(Exceeded::Guard);
            }
            if self.counts.evaluated >= SAMPLE_ROWS {
                self.ensure_fraction()?;
            }
        }
        Ok(())
    }

    /// Counts a row that was quarantined: the limits of the part do not apply to it, those of the job do.
    ///
    /// # Errors
    /// The limit of the job that was exceeded.
    pub fn quarantine(&mut self) -> Result<(), Exceeded> {
        self.job.add(true)
    }

    /// Checks a part at its end, also a small one.
    ///
    /// # Errors
    /// The limit that was exceeded. The part must then not be published.
    pub fn finish(&self) -> Result<(), Exceeded> {
        self.ensure_fraction()
    }

    /// Returns how many rows may be called next without stepping over a point where the limits are checked.
    pub fn rows_to_boundary(&self) -> u64 {
        match self.counts.evaluated {
            evaluated if evaluated < GUARD_ROWS => GUARD_ROWS - evaluated,
            evaluated if evaluated < SAMPLE_ROWS => SAMPLE_ROWS - evaluated,
            _ => u64::MAX,
        }
    }

    fn ensure_fraction(&self) -> Result<(), Exceeded> {
        let FailureLimits { fraction, rows } = self.job.limits;
        match (fraction, rows) {
            // A number of rows alone removes the fraction.
            (None, Some(_)) => Ok(()),
            (fraction, _) => ensure_fraction(self.counts, fraction.unwrap_or(DEFAULT_FRACTION)),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of rows are far below 2^52")]
fn ensure_fraction(counts: Counts, allowed: f64) -> Result<(), Exceeded> {
    let Counts { evaluated, failed } = counts;
    if failed as f64 > allowed * evaluated as f64 {
        return Err(Exceeded::Fraction { failed, evaluated, allowed });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(failed: usize, of: usize) -> Vec<bool> {
        // Failures last, so that no row before the end decides.
        (0..of).map(|row| row >= of - failed).collect()
    }

    fn run(limits: FailureLimits, rows: &[bool]) -> Result<(), Exceeded> {
        let mut part = JobLimits::new(limits).part();
        part.add(rows.iter().copied())?;
        part.finish()
    }

    #[test]
    fn w16_500_of_the_first_1000_pass_and_501_fail() {
        assert_eq!(run(FailureLimits::default(), &outcomes(500, 1_000)), Ok(()));
        assert!(matches!(
            run(FailureLimits::default(), &outcomes(501, 1_000)),
            Err(Exceeded::Fraction { failed: 501, evaluated: 1_000, .. })
        ));
    }

    #[test]
    fn w16_the_first_99_rows_may_fail_and_100_may_not() {
        let mut rows = vec![true; 99];
        rows.extend([false; 1]);
        let mut part = JobLimits::new(FailureLimits::default()).part();
        assert_eq!(part.add(rows), Ok(()));
        let limits = FailureLimits { rows: Some(1_000), ..FailureLimits::default() };
        assert_eq!(run(limits, &[true; 99]), Ok(()), "a smaller part ends");
        assert_eq!(run(limits, &[true; 100]), Err(Exceeded::Guard), "the guard stays beside a limit of rows");
    }

    #[test]
    fn err_04_a_smaller_part_is_checked_at_its_end() {
        assert_eq!(run(FailureLimits::default(), &outcomes(2, 4)), Ok(()));
        assert!(run(FailureLimits::default(), &outcomes(3, 4)).is_err());
    }

    #[test]
    fn err_04_checks_go_on_after_the_sample() {
        let mut part = JobLimits::new(FailureLimits::default()).part();
        part.add(outcomes(500, 1_000)).unwrap();
        assert!(part.add([true]).is_err());
    }

    #[test]
    fn err_04_limits_of_rows_count_over_all_parts_and_replace_the_fraction() {
        let job = JobLimits::new(FailureLimits { rows: Some(3), ..FailureLimits::default() });
        for _ in 0..3 {
            let mut part = job.part();
            part.add([true]).unwrap();
            part.finish().unwrap();
        }
        assert_eq!(job.part().add([true]), Err(Exceeded::Rows { failed: 4, allowed: 3 }));
    }

    #[test]
    fn err_04_either_limit_trips() {
        let limits = FailureLimits { fraction: Some(0.1), rows: Some(1_000) };
        assert!(run(limits, &outcomes(101, 1_000)).is_err());
        assert!(run(limits, &outcomes(100, 1_000)).is_ok());
        let limits = FailureLimits { fraction: Some(1.0), rows: Some(2) };
        assert!(run(limits, &outcomes(3, 10)).is_err());
        assert!(run(FailureLimits { fraction: Some(0.0), rows: None }, &outcomes(1, 10)).is_err());
    }

    #[test]
    fn err_04_rows_of_an_earlier_attempt_count() {
        let job = JobLimits::new(FailureLimits { rows: Some(3), ..FailureLimits::default() });
        job.resume(10, 3);
        assert_eq!(job.part().add([false, true]), Err(Exceeded::Rows { failed: 4, allowed: 3 }));
    }

    #[test]
    fn err_07_a_quarantined_row_counts_for_the_job_and_not_for_the_part() {
        let job = JobLimits::new(FailureLimits { rows: Some(1), ..FailureLimits::default() });
        let mut part = job.part();
        part.quarantine().unwrap();
        part.finish().unwrap();
        assert!(part.quarantine().is_err());
        let mut part = JobLimits::new(FailureLimits::default()).part();
        part.quarantine().unwrap();
        assert_eq!(part.finish(), Ok(()), "the default fraction is of the part");
    }
}
