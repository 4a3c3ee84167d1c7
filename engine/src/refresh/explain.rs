//! EXPLAIN REFRESH COLUMN and EXPLAIN JOB: the plan that a refresh started now
//! would run. Nothing runs: no job, no worker, no lock (EX-03).
//!
//! ```text
//! RefreshJobExec: source=7, workers=2, fragments=1/4, rows=3, fragment=3
//!   RefreshStageExec: column=body_len, stored_values=kept
//!     ProjectionExec: expr=[length(body) as body_len]
//!       StaleRowsExec: rows=3, of=100
//!         LanceScan: fragment=3, columns=[body, body_len]
//! ```
//!
//! The tree below the root is what a worker runs for one fragment, the first
//! with work. Unset attributes are left out.

use std::fmt::Write as _;

use super::function::FunctionSpec;
use super::plan::{self, FragmentWork, RefreshPlan};
use super::snapshot::Snapshot;
use super::{Limits, RefreshError, RefreshSpec};
use crate::storage::{StorageError, Store};

/// One row of an EXPLAIN result: `plan_type`, `plan`.
pub type PlanRow = (String, String);

/// Renders the plan of a refresh against the newest version of the table.
///
/// `statement` is the logical plan's text, `root` holds attributes that go in
/// front of the root's own (state and progress of a job).
///
/// # Errors
/// As planning the refresh.
pub async fn explain(
    store: &Store,
    spec: &RefreshSpec,
    statement: &str,
    limits: &Limits,
    root: &[(String, String)],
    verbose: bool,
) -> Result<Vec<PlanRow>, RefreshError> {
    let dataset = spec.open(store).await?;
    let snapshot = Snapshot::of(dataset, &spec.column)?;
    if spec.function.is_none() {
        super::run::evaluator(&snapshot)?;
    }
    let plan = plan::plan(&snapshot, spec.predicate.as_deref()).await?;
    let mut rows = vec![
        ("logical_plan".to_owned(), statement.to_owned()),
        ("physical_plan".to_owned(), physical(&snapshot, spec, &plan, limits, root).await?),
    ];
    if verbose {
        rows.push(("fragments".to_owned(), fragments(&snapshot, &plan)));
    }
    Ok(rows)
}

async fn physical(
    snapshot: &Snapshot,
    spec: &RefreshSpec,
    plan: &RefreshPlan,
    limits: &Limits,
    root: &[(String, String)],
) -> Result<String, RefreshError> {
    let mut text = String::from("RefreshJobExec: ");
    for (name, value) in root {
        let _ = write!(text, "{name}={value}, ");
    }
    let _ = write!(
        text,
        "source={}{}, fragments={}/{}, rows={}",
        snapshot.dataset.version_id(),
        match &spec.function {
            None => format!(", workers={}", spec.workers(limits)),
            Some(function) => function_options(function),
        },
        plan.work.len(),
        plan.fragments,
        plan.rows()
    );
    if let Some(shown) = plan.work.first() {
        let _ = write!(text, ", fragment={}", shown.fragment_id);
        stage(&mut text, snapshot, spec, shown).await?;
    }
    Ok(text)
}

/// What a Function refresh runs with; unset fields are left out (decision 20).
fn function_options(function: &FunctionSpec) -> String {
    let mut text = String::new();
    let class = function.gpu_class.as_ref().map(|class| format!("gpu_class={class}"));
    let caps = Some(function.budget.to_string()).filter(|caps| !caps.is_empty());
    let budget: Vec<String> = [caps, class].into_iter().flatten().collect();
    if !budget.is_empty() {
        let _ = write!(text, ", budget=[{}]", budget.join(", "));
    }
    let _ = write!(text, ", error_policy={}", if function.skip { "skip" } else { "fail" });
    for (name, value) in [("batch_size", function.batch_size), ("row_timeout", function.row_timeout_seconds)] {
        if let Some(value) = value {
            let _ = write!(text, ", {name}={value}");
        }
    }
    text
}

async fn stage(
    text: &mut String,
    snapshot: &Snapshot,
    spec: &RefreshSpec,
    shown: &FragmentWork,
) -> Result<(), StorageError> {
    let column = &snapshot.column;
    let id = usize::try_from(shown.fragment_id).expect("Lance fragment ids fit 32 bits");
    let fragment = snapshot.dataset.get_fragment(id).expect("the plan was made on this version");
    let live = fragment.count_rows(None).await?;
    let stored = if shown.whole { "replaced" } else { "kept" };
    let filter = spec.predicate.as_ref().map(|text| format!(", filter=[{text}]")).unwrap_or_default();
    let read = snapshot.read_paths(!shown.whole);
    let _ = write!(
        text,
        "\n  RefreshStageExec: column={name}, stored_values={stored}\
         \n    {node}: expr=[{expression} as {name}]\
         \n      StaleRowsExec: rows={due}, of={live}{filter}\
         \n        LanceScan: fragment={fragment}, columns=[{columns}]",
        name = column.name,
        node = if spec.function.is_some() { "PythonUdfExec" } else { "ProjectionExec" },
        expression = column.expression,
        due = shown.rows.len(),
        fragment = shown.fragment_id,
        columns = read.join(", ")
    );
    Ok(())
}

/// One line per fragment of the version: rows to compute, rows in all.
fn fragments(snapshot: &Snapshot, plan: &RefreshPlan) -> String {
    let mut lines = Vec::with_capacity(plan.fragments);
    let mut work = plan.work.iter().peekable();
    for fragment in snapshot.dataset.iter_fragments() {
        let due = work.next_if(|work| work.fragment_id == fragment.id).map_or(0, |work| work.rows.len());
        let rows = fragment.physical_rows.unwrap_or_default();
        lines.push(format!("fragment={}, rows={due}, of={rows}", fragment.id));
    }
    lines.join("\n")
}
