//! The states of a job and the one function that moves between them.

use std::fmt;

/// Where a job is in its life.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum JobState {
    /// Recorded, not yet offered to runners.
    Created,
    /// Waits for a runner.
    Queued,
    /// An attempt holds it.
    InProgress,
    /// Parked by a user.
    Paused,
    /// Ended with all of its work done.
    Succeeded,
    /// Ended with an error.
    Failed,
    /// Ended by request, or because its table is gone.
    Canceled,
    /// Ended because it ran too long.
    TimedOut,
    /// A state written by newer software. Shown as it is, never changed.
    Other(String),
}

impl JobState {
    /// Every state that this software writes.
    pub const KNOWN: [JobState; 8] = [
        JobState::Created,
        JobState::Queued,
        JobState::InProgress,
        JobState::Paused,
        JobState::Succeeded,
        JobState::Failed,
        JobState::Canceled,
        JobState::TimedOut,
    ];

    /// Returns the word used in listings and in the store.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            JobState::Created => "created",
            JobState::Queued => "queued",
            JobState::InProgress => "in_progress",
            JobState::Paused => "paused",
            JobState::Succeeded => "succeeded",
            JobState::Failed => "failed",
            JobState::Canceled => "canceled",
            JobState::TimedOut => "timed_out",
            JobState::Other(word) => word,
        }
    }

    /// Returns the coarser word of the REST description of a job.
    #[must_use]
    pub fn describe_str(&self) -> &str {
        match self {
            JobState::Created | JobState::Queued | JobState::InProgress | JobState::Paused => "IN_PROGRESS",
            JobState::Succeeded => "DONE",
            JobState::Failed | JobState::TimedOut => "FAILED",
            JobState::Canceled => "CANCELLED",
            JobState::Other(word) => word,
        }
    }

    /// Returns whether a job in this state never changes again.
    ///
    /// An unknown state counts as unfinished: nobody may conclude from it.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        match self {
            JobState::Succeeded | JobState::Failed | JobState::Canceled | JobState::TimedOut => true,
            JobState::Created | JobState::Queued | JobState::InProgress | JobState::Paused | JobState::Other(_) => {
                false
            }
        }
    }
}

impl From<&str> for JobState {
    fn from(word: &str) -> Self {
        JobState::KNOWN
            .into_iter()
            .find(|state| state.as_str() == word)
            .unwrap_or_else(|| JobState::Other(word.to_owned()))
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a user asked of a running attempt, until the attempt has obeyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Control {
    /// Drain and park.
    Pause,
    /// Stop for good.
    Cancel,
}

impl Control {
    /// Returns the word used in the store.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Control::Pause => "pause",
            Control::Cancel => "cancel",
        }
    }
}

/// The state of a job, and what its running attempt was asked to do.
///
/// A request is not a state: listings show a job that is being paused as
/// `in_progress`, which is what its workers are. It exists only there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Status {
    /// The state.
    pub state: JobState,
    /// The pending request; only with [`JobState::InProgress`].
    pub requested: Option<Control>,
}

impl From<JobState> for Status {
    fn from(state: JobState) -> Self {
        Status { state, requested: None }
    }
}

impl Status {
    fn in_progress(requested: Option<Control>) -> Self {
        Status { state: JobState::InProgress, requested }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.requested {
            None => write!(f, "{}", self.state),
            Some(control) => write!(f, "{} ({} requested)", self.state, control.as_str()),
        }
    }
}

/// What happens to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trigger {
    /// It is offered to runners.
    Enqueue,
    /// A runner takes it.
    Claim,
    /// A runner takes it from an attempt whose lease has expired.
    TakeOver,
    /// A user wants it parked.
    Pause,
    /// A user wants it to go on.
    Resume,
    /// A user wants it ended, or its table is gone.
    Cancel,
    /// The attempt has obeyed the request.
    Stop,
    /// The attempt gives it back unharmed, as at shutdown.
    Release,
    /// The attempt has done all of the work.
    Complete,
    /// The attempt failed and another may try.
    Retry,
    /// It failed for good.
    Fail,
    /// It ran too long.
    TimeOut,
    /// The attempt is gone without a word.
    Expire,
}

impl Trigger {
    /// Every trigger.
    pub const ALL: [Trigger; 13] = [
        Trigger::Enqueue,
        Trigger::Claim,
        Trigger::TakeOver,
        Trigger::Pause,
        Trigger::Resume,
        Trigger::Cancel,
        Trigger::Stop,
        Trigger::Release,
        Trigger::Complete,
        Trigger::Retry,
        Trigger::Fail,
        Trigger::TimeOut,
        Trigger::Expire,
    ];

    /// Returns the word used in event messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Trigger::Enqueue => "enqueue",
            Trigger::Claim => "claim",
            Trigger::TakeOver => "take over",
            Trigger::Pause => "pause",
            Trigger::Resume => "resume",
            Trigger::Cancel => "cancel",
            Trigger::Stop => "stop",
            Trigger::Release => "release",
            Trigger::Complete => "complete",
            Trigger::Retry => "retry",
            Trigger::Fail => "fail",
            Trigger::TimeOut => "time out",
            Trigger::Expire => "expire",
        }
    }
}

/// A trigger that does not apply to a status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot {} a job that is {status}", trigger.as_str())]
pub struct IllegalTransition {
    /// The status of the job.
    pub status: Status,
    /// What should have happened.
    pub trigger: Trigger,
}

/// Returns the status that follows `status` when `trigger` happens.
///
/// `run`, `run+p` and `run+c` are `in_progress` without a request, with a
/// request to pause, and with a request to cancel; `–` is an error.
///
/// | from      | Enqueue | Claim | TakeOver | Pause  | Resume | Cancel   | Stop     | Release  | Complete  | Retry    | Fail     | TimeOut   | Expire   |
/// |-----------|---------|-------|----------|--------|--------|----------|----------|----------|-----------|----------|----------|-----------|----------|
/// | created   | queued  | –     | –        | –      | –      | canceled | –        | –        | –         | –        | failed   | –         | –        |
/// | queued    | –       | run   | –        | paused | –      | canceled | –        | –        | –         | –        | –        | –         | –        |
/// | run       | –       | –     | run      | run+p  | –      | run+c    | –        | queued   | succeeded | queued   | failed   | timed_out | queued   |
/// | run+p     | –       | –     | run+p    | run+p  | –      | run+c    | paused   | paused   | succeeded | paused   | failed   | timed_out | paused   |
/// | run+c     | –       | –     | run+c    | –      | –      | run+c    | canceled | canceled | succeeded | canceled | canceled | canceled  | canceled |
/// | paused    | –       | –     | –        | –      | queued | canceled | –        | –        | –         | –        | –        | –         | –        |
/// | terminal  | –       | –     | –        | –      | –      | –        | –        | –        | –         | –        | –        | –         | –        |
/// | unknown   | –       | –     | –        | –      | –      | –        | –        | –        | –         | –        | –        | –         | –        |
///
/// `Complete` wins against both requests: what is published is not unsaid.
/// Once a cancel was requested, every way the attempt can end is terminal.
///
/// # Errors
///
/// [`IllegalTransition`] for every `–`.
pub fn transition(status: &Status, trigger: Trigger) -> Result<Status, IllegalTransition> {
    use JobState::{Canceled, Created, Failed, InProgress, Paused, Queued, Succeeded, TimedOut};

    let illegal = || IllegalTransition { status: status.clone(), trigger };
    let next = match (&status.state, status.requested) {
        (Created, _) => match trigger {
            Trigger::Enqueue => Queued.into(),
            Trigger::Cancel => Canceled.into(),
            Trigger::Fail => Failed.into(),
            Trigger::Claim
            | Trigger::TakeOver
            | Trigger::Pause
            | Trigger::Resume
            | Trigger::Stop
            | Trigger::Release
            | Trigger::Complete
            | Trigger::Retry
            | Trigger::TimeOut
            | Trigger::Expire => return Err(illegal()),
        },
        (Queued, _) => match trigger {
            Trigger::Claim => Status::in_progress(None),
            Trigger::Pause => Paused.into(),
            Trigger::Cancel => Canceled.into(),
            Trigger::Enqueue
            | Trigger::TakeOver
            | Trigger::Resume
            | Trigger::Stop
            | Trigger::Release
            | Trigger::Complete
            | Trigger::Retry
            | Trigger::Fail
            | Trigger::TimeOut
            | Trigger::Expire => return Err(illegal()),
        },
        (InProgress, None) => match trigger {
            Trigger::TakeOver => Status::in_progress(None),
            Trigger::Pause => Status::in_progress(Some(Control::Pause)),
            Trigger::Cancel => Status::in_progress(Some(Control::Cancel)),
            Trigger::Release | Trigger::Retry | Trigger::Expire => Queued.into(),
            Trigger::Complete => Succeeded.into(),
            Trigger::Fail => Failed.into(),
            Trigger::TimeOut => TimedOut.into(),
            Trigger::Enqueue | Trigger::Claim | Trigger::Resume | Trigger::Stop => {
                return Err(illegal());
            }
        },
        (InProgress, Some(Control::Pause)) => match trigger {
            Trigger::TakeOver | Trigger::Pause => Status::in_progress(Some(Control::Pause)),
            Trigger::Cancel => Status::in_progress(Some(Control::Cancel)),
            Trigger::Stop | Trigger::Release | Trigger::Retry | Trigger::Expire => Paused.into(),
            Trigger::Complete => Succeeded.into(),
            Trigger::Fail => Failed.into(),
            Trigger::TimeOut => TimedOut.into(),
            Trigger::Enqueue | Trigger::Claim | Trigger::Resume => return Err(illegal()),
        },
        (InProgress, Some(Control::Cancel)) => match trigger {
            Trigger::TakeOver | Trigger::Cancel => Status::in_progress(Some(Control::Cancel)),
            Trigger::Complete => Succeeded.into(),
            Trigger::Stop | Trigger::Release | Trigger::Retry | Trigger::Fail | Trigger::TimeOut | Trigger::Expire => {
                Canceled.into()
            }
            Trigger::Enqueue | Trigger::Claim | Trigger::Pause | Trigger::Resume => {
                return Err(illegal());
            }
        },
        (Paused, _) => match trigger {
            Trigger::Resume => Queued.into(),
            Trigger::Cancel => Canceled.into(),
            Trigger::Enqueue
            | Trigger::Claim
            | Trigger::TakeOver
            | Trigger::Pause
            | Trigger::Stop
            | Trigger::Release
            | Trigger::Complete
            | Trigger::Retry
            | Trigger::Fail
            | Trigger::TimeOut
            | Trigger::Expire => return Err(illegal()),
        },
        (Succeeded | Failed | Canceled | TimedOut | JobState::Other(_), _) => {
            return Err(illegal());
        }
    };
    Ok(next)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn statuses() -> Vec<(&'static str, Status)> {
        vec![
            ("created", JobState::Created.into()),
            ("queued", JobState::Queued.into()),
            ("run", Status::in_progress(None)),
            ("run+p", Status::in_progress(Some(Control::Pause))),
            ("run+c", Status::in_progress(Some(Control::Cancel))),
            ("paused", JobState::Paused.into()),
            ("succeeded", JobState::Succeeded.into()),
            ("failed", JobState::Failed.into()),
            ("canceled", JobState::Canceled.into()),
            ("timed_out", JobState::TimedOut.into()),
            ("unknown", JobState::Other("hibernating".to_owned()).into()),
        ]
    }

    /// The table of [`transition`], one column for each of [`Trigger::ALL`].
    #[rustfmt::skip]
    const TABLE: &[(&str, [&str; 13])] = &[
        ("created", ["queued", "–", "–", "–", "–", "canceled", "–", "–", "–", "–", "failed", "–", "–"]),
        ("queued", ["–", "run", "–", "paused", "–", "canceled", "–", "–", "–", "–", "–", "–", "–"]),
        ("run", ["–", "–", "run", "run+p", "–", "run+c", "–", "queued", "succeeded", "queued", "failed", "timed_out", "queued"]),
        ("run+p", ["–", "–", "run+p", "run+p", "–", "run+c", "paused", "paused", "succeeded", "paused", "failed", "timed_out", "paused"]),
        ("run+c", ["–", "–", "run+c", "–", "–", "run+c", "canceled", "canceled", "succeeded", "canceled", "canceled", "canceled", "canceled"]),
        ("paused", ["–", "–", "–", "–", "queued", "canceled", "–", "–", "–", "–", "–", "–", "–"]),
        ("succeeded", ["–"; 13]),
        ("failed", ["–"; 13]),
        ("canceled", ["–"; 13]),
        ("timed_out", ["–"; 13]),
        ("unknown", ["–"; 13]),
    ];

    #[test]
    fn every_cell_of_the_documented_table_holds() {
        let statuses = statuses();
        assert_eq!(TABLE.len(), statuses.len());
        for (from, row) in TABLE {
            let (_, status) = statuses.iter().find(|(name, _)| name == from).unwrap();
            for (trigger, expected) in Trigger::ALL.into_iter().zip(row) {
                let found = match transition(status, trigger) {
                    Ok(next) => statuses.iter().find(|(_, s)| *s == next).unwrap().0,
                    Err(error) => {
                        assert_eq!((&error.status, error.trigger), (status, trigger));
                        "–"
                    }
                };
                assert_eq!(found, *expected, "{from} on {trigger:?}");
            }
        }
    }

    #[test]
    fn words_are_read_back_and_unknown_ones_pass_through() {
        for state in JobState::KNOWN {
            assert_eq!(JobState::from(state.as_str()), state);
        }
        let unknown = JobState::from("hibernating");
        assert_eq!(unknown.as_str(), "hibernating");
        assert_eq!(unknown.describe_str(), "hibernating");
    }

    #[test]
    fn the_message_names_the_request() {
        let error = transition(&Status::in_progress(Some(Control::Pause)), Trigger::Resume);
        assert_eq!(error.unwrap_err().to_string(), "cannot resume a job that is in_progress (pause requested)");
    }

    fn life() -> impl Strategy<Value = Vec<Trigger>> {
        proptest::collection::vec(proptest::sample::select(Trigger::ALL.to_vec()), 0..60)
    }

    /// Applies the legal triggers of `life` in order.
    fn live(mut status: Status, life: &[Trigger], mut seen: impl FnMut(&Status, Trigger, &Status)) {
        for trigger in life {
            if let Ok(next) = transition(&status, *trigger) {
                seen(&status, *trigger, &next);
                status = next;
            }
        }
    }

    proptest! {
        #[test]
        fn no_trigger_leaves_a_terminal_state(life in life()) {
            live(JobState::Created.into(), &life, |from, _, _| {
                assert!(!from.state.is_terminal());
            });
        }

        #[test]
        fn a_request_exists_only_while_in_progress(life in life()) {
            live(JobState::Created.into(), &life, |_, _, next| {
                assert!(next.requested.is_none() || next.state == JobState::InProgress);
            });
        }

        #[test]
        fn after_a_cancel_the_job_runs_or_has_ended(life in life()) {
            let mut canceled = false;
            live(JobState::Created.into(), &life, |_, trigger, next| {
                canceled |= trigger == Trigger::Cancel;
                let obeys = next.requested == Some(Control::Cancel) || next.state.is_terminal();
                assert!(!canceled || obeys);
            });
        }

        #[test]
        fn after_a_pause_only_resume_or_an_end_brings_a_job_on(life in life()) {
            let mut parked = false;
            live(JobState::Created.into(), &life, |_, trigger, next| {
                parked = (parked || trigger == Trigger::Pause) && trigger != Trigger::Resume;
                assert!(!parked || next.state != JobState::Queued);
            });
        }
    }
}
