use chrono::DateTime;
use lancegate_catalog::{AttemptEpoch, JobId, JobKind, JobState};

use super::*;

fn at(millis: i64) -> Timestamp {
    DateTime::from_timestamp_millis(millis).unwrap()
}

fn job(state: JobState) -> Job {
    Job {
        id: JobId::new(at(0)),
        kind: JobKind::ComputedRefresh,
        database: "lancegate".into(),
        namespace: vec![],
        table_name: "docs".into(),
        table_id: None,
        column: Some("words".into()),
        branch: None,
        submitted_by: "ann".into(),
        spec: Value::Null,
        parent: None,
        exclusive_key: None,
        automatic: false,
        binding: None,
        status: state.into(),
        phase: "finished".into(),
        progress: None,
        queue_reason: None,
        result: None,
        failure: None,
        source_version: Some(4),
        epoch: AttemptEpoch(1),
        attempt: 1,
        gateway: None,
        lease_expires_at: None,
        not_before: None,
        created_at: at(1_000),
        updated_at: at(2_000),
        started_at: Some(at(1_100)),
        finished_at: Some(at(2_000)),
    }
}

fn succeeded() -> Job {
    let result = json!({
        "rows_assigned": 3, "rows_failed": 0, "rows_remaining": 0, "source_version": 4, "published_version": 5,
        "profile": {
            "phases": [
                {"phase": "planning", "started_at_millis": 1_100, "millis": 200},
                {"phase": "running splits", "started_at_millis": 1_300, "millis": 500},
                {"phase": "committing", "started_at_millis": 1_800, "millis": 150},
            ],
            "workers": [
                {"component": "read", "millis": 100, "count": 2},
                {"component": "evaluate", "millis": 300, "count": 2},
            ],
            "commits": 1, "fragments": 2,
        },
    });
    Job { result: Some(result), ..job(JobState::Succeeded) }
}

#[test]
fn prog_09_a_running_job_has_no_profile() {
    for state in [JobState::Queued, JobState::InProgress, JobState::Paused] {
        assert_eq!(JobProfile::of(&Job { finished_at: None, ..job(state) }), None);
    }
}

#[test]
fn prog_09_a_finished_refresh_shows_totals_timeline_and_workers() {
    let job = succeeded();
    let expected = [
        &format!("Job {}: computed_refresh of docs.words, succeeded", job.id),
        "Totals",
        "  job                    1000 ms",
        "  rows assigned             3",
        "  rows failed               0",
        "  rows remaining            0",
        "  fragments                 2",
        "  commits                   1",
        "  attempts                  1",
        "Timeline (wall time)",
        "  queued                  100 ms  10.0 %",
        "  planning                200 ms  20.0 %",
        "  running splits          500 ms  50.0 %",
        "  committing              150 ms  15.0 %",
        "  other                    50 ms   5.0 %",
        "Running splits (worker time)",
        "  read                    100 ms  25.0 %  count=2",
        "  evaluate                300 ms  75.0 %  count=2",
    ];
    assert_eq!(JobProfile::of(&job).unwrap().text(), expected);
}

#[test]
fn prog_09_a_job_without_measurements_shows_what_its_row_knows() {
    let failed = JobProfile::of(&job(JobState::Failed)).unwrap();
    let timeline: Vec<_> = failed.lines.iter().filter(|line| line.section == TIMELINE).collect();
    let phases: Vec<_> = timeline.iter().map(|line| (line.phase.as_deref(), line.millis)).collect();
    assert_eq!(phases, [(Some("queued"), Some(100)), (Some("running"), Some(900))]);

    let never_ran = Job { started_at: None, attempt: 0, ..job(JobState::Canceled) };
    let canceled = JobProfile::of(&never_ran).unwrap();
    let phases: Vec<_> =
        canceled.lines.iter().filter(|line| line.section == TIMELINE).map(|line| line.millis).collect();
    assert_eq!(phases, [Some(1_000)]);
}

#[test]
fn prog_09_the_document_holds_the_same_lines() {
    let document = JobProfile::of(&succeeded()).unwrap().json();
    assert_eq!(document["state"], "succeeded");
    let phases: Vec<_> = document["timeline"].as_array().unwrap().iter().map(|line| line["phase"].clone()).collect();
    assert_eq!(phases, ["queued", "planning", "running splits", "committing", "other"]);
    let evaluate = json!({"phase": "running splits", "component": "evaluate", "millis": 300, "unit": "worker", "share": 0.75, "count": 2});
    assert_eq!(document["workers"][1], evaluate);
}
