//! What becomes of a job when its attempt has ended: a pure decision.

use std::any::Any;
use std::time::Duration;

use lancegate_catalog::Failure;
use serde_json::Value;

use super::work::WorkError;
use crate::error::SqlError;
use crate::sqlstate::SqlState;

/// Why an attempt was told to stop. A later one outranks an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stop {
    /// The gateway stops.
    Shutdown,
    /// A user wants the job parked.
    Pause,
    /// It has run as long as it may.
    TimeLimit,
    /// A user wants the job ended.
    Cancel,
    /// The job may be another attempt's now.
    LeaseLost,
}

/// How the task of an attempt ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// By itself.
    Returned(Result<Value, WorkError>),
    /// By a panic, with its message.
    Panicked(String),
    /// It was dropped with its runtime.
    Aborted,
}

/// What to record.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// The job succeeded.
    Complete(Value),
    /// The job is queued for another attempt, or fails after the last one.
    Retry(Failure),
    /// The job failed for good.
    Fail(Failure),
    /// The job ends because it ran longer than it may.
    TimeOut(Failure),
    /// The job ends as canceled; the text says why if nobody asked for it.
    Cancel(Option<String>),
    /// The job is parked.
    Park,
    /// The job is queued again.
    Release,
    /// Nothing: the job is another attempt's, or will be.
    Leave,
}

/// Decides; `stop` is why the attempt was told to stop, if it was.
pub(super) fn decide(ended: Ended, stop: Option<Stop>) -> Verdict {
    if stop == Some(Stop::LeaseLost) {
        return Verdict::Leave;
    }
    match ended {
        // What is published is not unsaid, whatever was asked meanwhile.
        Ended::Returned(Ok(result)) => Verdict::Complete(result),
        Ended::Returned(Err(WorkError::Transient(failure))) => Verdict::Retry(failure),
        Ended::Returned(Err(WorkError::Failed(failure))) => Verdict::Fail(failure),
        Ended::Returned(Err(WorkError::Gone(what))) => Verdict::Cancel(Some(what)),
        Ended::Returned(Err(WorkError::LeaseLost)) | Ended::Aborted => Verdict::Leave,
        Ended::Returned(Err(WorkError::Stopped)) => match stop {
            Some(Stop::Cancel) => Verdict::Cancel(None),
            Some(Stop::TimeLimit) => Verdict::TimeOut(failure(&out_of_time())),
            Some(Stop::Pause) => Verdict::Park,
            Some(Stop::Shutdown) => Verdict::Release,
            Some(Stop::LeaseLost) => Verdict::Leave,
            None => Verdict::Fail(internal("the work stopped without being asked to")),
        },
        Ended::Panicked(message) => Verdict::Fail(internal(&format!("an attempt panicked: {message}"))),
    }
}

fn out_of_time() -> SqlError {
    SqlError::new(SqlState::QUERY_CANCELED, "canceling job due to its execution limit")
        .detail("What it has published stays.")
        .hint("Refresh the rest WHERE a predicate selects less of it, or raise jobs.execution_limit.")
        .named("ExecutionLimitExceeded")
}

/// Attempts of a job that may fail before it fails itself.
pub(super) const ATTEMPTS_MAX: u32 = 5;

/// Returns how long a job rests after so many failed attempts before this one:
/// 1 s, doubling, give or take a fifth; `random` is from 0 to 1.
pub(super) fn rest(earlier: u32, random: f64) -> Duration {
    Duration::from_secs(1 << earlier.min(6)).mul_f64(0.8 + 0.4 * random)
}

/// Returns what a failed job keeps of an error.
pub(crate) fn failure(error: &SqlError) -> Failure {
    Failure {
        error_code: error.error_name.as_deref().unwrap_or("InternalError").to_owned(),
        message: error.message.clone(),
        detail: error.detail.clone(),
        hint: error.hint.clone(),
        sqlstate: Some(error.code.to_string()),
    }
}

/// Logs the cause and returns a failure that does not show it.
fn internal(cause: &str) -> Failure {
    failure(&SqlError::internal(cause))
}

/// Returns the text of a panic.
pub(super) fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn failed() -> Failure {
        failure(&SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero").named("EvaluationError"))
    }

    #[test]
    fn every_end_of_an_attempt_has_one_consequence() {
        let stopped = || Ended::Returned(Err(WorkError::Stopped));
        let done = || Ended::Returned(Ok(json!(1)));
        let internal = || failure(&SqlError::new(SqlState::INTERNAL_ERROR, "internal error"));
        let cases = [
            (done(), None, Verdict::Complete(json!(1))),
            (done(), Some(Stop::Cancel), Verdict::Complete(json!(1))),
            (done(), Some(Stop::Shutdown), Verdict::Complete(json!(1))),
            (done(), Some(Stop::LeaseLost), Verdict::Leave),
            (stopped(), Some(Stop::Cancel), Verdict::Cancel(None)),
            (stopped(), Some(Stop::Pause), Verdict::Park),
            (stopped(), Some(Stop::TimeLimit), Verdict::TimeOut(failure(&out_of_time()))),
            (done(), Some(Stop::TimeLimit), Verdict::Complete(json!(1))),
            (stopped(), Some(Stop::Shutdown), Verdict::Release),
            (stopped(), Some(Stop::LeaseLost), Verdict::Leave),
            (stopped(), None, Verdict::Fail(internal())),
            (Ended::Returned(Err(WorkError::Failed(failed()))), None, Verdict::Fail(failed())),
            (Ended::Returned(Err(WorkError::Transient(failed()))), None, Verdict::Retry(failed())),
            (Ended::Returned(Err(WorkError::Failed(failed()))), Some(Stop::LeaseLost), Verdict::Leave),
            (Ended::Returned(Err(WorkError::LeaseLost)), None, Verdict::Leave),
            (Ended::Returned(Err(WorkError::Gone("x".into()))), None, Verdict::Cancel(Some("x".into()))),
            (Ended::Panicked("boom".into()), None, Verdict::Fail(internal())),
            (Ended::Aborted, None, Verdict::Leave),
        ];
        for (ended, stop, expected) in cases {
            let shown = format!("{ended:?} {stop:?}");
            assert_eq!(decide(ended, stop), expected, "{shown}");
        }
    }

    #[test]
    fn rests_double_and_differ_by_a_fifth_at_most() {
        let between = |earlier| (rest(earlier, 0.0).as_millis(), rest(earlier, 1.0).as_millis());
        assert_eq!([between(0), between(1), between(3)], [(800, 1_200), (1_600, 2_400), (6_400, 9_600)]);
    }
}
