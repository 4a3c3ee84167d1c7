//! Steering jobs, and the intervals that this needs.

use std::time::Duration;

use crate::ast::{CancelJob, PauseJob, ResumeJob, Statement, WaitJob};
use crate::cursor::Cursor;
use crate::error::{ParseError, ParseErrorKind};

/// Parses `PAUSE JOB`, `RESUME JOB`, `CANCEL JOB` and `WAIT JOB`.
pub(super) fn control(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    let verb = cursor.take_one(&["PAUSE", "RESUME", "CANCEL", "WAIT"]);
    let verb = verb.ok_or_else(|| cursor.unexpected())?;
    cursor.expect(&["JOB"])?;
    let id = cursor.string()?;
    Ok(match verb {
        "PAUSE" => Statement::PauseJob(PauseJob { id }),
        "RESUME" => Statement::ResumeJob(ResumeJob { id }),
        "CANCEL" => Statement::CancelJob(CancelJob { id }),
        _ => {
            let timeout = if cursor.take(&["TIMEOUT"]) { Some(timeout(cursor)?) } else { None };
            Statement::WaitJob(WaitJob { id, timeout })
        }
    })
}

fn timeout(cursor: &mut Cursor<'_>) -> Result<Duration, ParseError> {
    let position = cursor.position().get();
    let text = cursor.string()?;
    interval(&text).ok_or_else(|| {
        ParseError::new(ParseErrorKind::BadOptionValue, format!("invalid value for TIMEOUT: \"{text}\""))
            .with_detail("TIMEOUT takes an interval that is not negative.")
            .with_hint("Write it like '90 seconds', '10 min' or '01:30:00'.")
            .at(position)
    })
}

/// Reads the plain forms of PostgreSQL's intervals: numbers with units, a clock
/// time, or a bare number of seconds. Fractions count to the millisecond.
fn interval(text: &str) -> Option<Duration> {
    let text = text.trim().to_ascii_lowercase();
    let mut words = separate_units(&text);
    words.reverse();
    let mut millis = 0.0_f64;
    let mut any = false;
    while let Some(word) = words.pop() {
        if word.contains(':') {
            millis += clock(&word)?;
        } else {
            let number: f64 = word.parse().ok()?;
            let unit = words.pop();
            millis += number * unit.as_deref().map_or(Some(1_000.0), unit_millis)?;
        }
        any = true;
    }
    let valid = any && (0.0..1e15).contains(&millis);
    // The range was checked, so the conversion neither wraps nor loses more than
    // a fraction of a millisecond.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    valid.then(|| Duration::from_millis(millis.round() as u64))
}

/// Splits `10min 5 s` into numbers and units.
fn separate_units(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut last = ' ';
    for c in text.chars() {
        let numeric = |c: char| c.is_ascii_digit() || matches!(c, '.' | ':' | '-' | '+');
        if !c.is_whitespace() {
            match words.last_mut() {
                Some(word) if !last.is_whitespace() && numeric(last) == numeric(c) => word.push(c),
                _ => words.push(c.to_string()),
            }
        }
        last = c;
    }
    words
}

fn clock(word: &str) -> Option<f64> {
    let parts: Vec<f64> = word.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    match parts.as_slice() {
        [hours, minutes] => Some((hours * 60.0 + minutes) * 60_000.0),
        [hours, minutes, seconds] => Some(((hours * 60.0 + minutes) * 60.0 + seconds) * 1_000.0),
        _ => None,
    }
}

fn unit_millis(unit: &str) -> Option<f64> {
    Some(match unit {
        "ms" | "msec" | "msecs" | "millisecond" | "milliseconds" => 1.0,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000.0,
        "d" | "day" | "days" => 86_400_000.0,
        "w" | "week" | "weeks" => 604_800_000.0,
        _ => return None,
    })
}
