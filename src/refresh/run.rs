//! One attempt of a refresh job, from its pinned version to the record of the
//! inputs used.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use futures::stream::StreamExt;
use lance::Dataset;
use lance::dataset::refs::Ref;
use lance_table::format::Fragment;
use roaring::RoaringBitmap;

use super::expression::Evaluator;
use super::function::{Computation, FunctionHost};
use super::ledger::Ledger;
use super::plan::{self, FragmentWork, RefreshPlan};
use super::profile::PhaseClock;
use super::progress::Progress;
use super::provenance::{FragmentProvenance, Provenance};
use super::snapshot::Snapshot;
use super::stage::{StageTimes, StagedFragment, stage_fragment};
use super::{Limits, RefreshError, RefreshOutcome, RefreshSpec, staleness};
use crate::storage::commit::{self, Replacement};
use crate::storage::{StorageError, Store, computed};

/// Times that rows invalidated by concurrent writes are planned again (RC-15).
const ROUNDS_MAX: u32 = 3;

/// Runs a refresh to its end.
///
/// Cancellation (through `progress`) is seen at batch boundaries and before each
/// publication; what was published stays. Dropping the future is safe at any
/// point: the table is between two versions, never in one.
///
/// # Errors
/// See [`RefreshError`].
pub async fn run(
    store: &Store,
    spec: &RefreshSpec,
    ledger: &Ledger,
    progress: Arc<Progress>,
    limits: Limits,
    host: &FunctionHost,
) -> Result<RefreshOutcome, RefreshError> {
    let mut clock = PhaseClock::new(Arc::clone(&progress));
    clock.enter("planning");
    let latest = spec.open(store).await?;
    let source_version = ledger.pin_source(latest.version_id()).await?;
    let pinned = at_version(&latest, source_version).await?;
    let snapshot = Arc::new(Snapshot::of(pinned, &spec.column)?);
    let computation = computation(&snapshot, spec, host).await?;
    let mut attempt = Attempt {
        spec,
        ledger,
        progress,
        limits,
        computation,
        rows_failed: 0,
        published: BTreeMap::new(),
        computed: BTreeMap::new(),
        rows_assigned: 0,
        newest: None,
        commits: 0,
        fragments: 0,
        times: StageTimes::default(),
    };
    let plan = plan::plan(&snapshot, spec.predicate.as_deref()).await?;
    attempt.take_over(&latest, &snapshot, &plan.current).await?;
    let worked = attempt.work(&snapshot, &plan, &mut clock).await;
    clock.enter("committing");
    // A failed or cancelled attempt keeps what it published, and its record.
    let sealed = attempt.seal(&snapshot, &plan).await;
    worked.and_then(|()| attempt.computation.finish())?;
    let rows_remaining = sealed?;
    Ok(RefreshOutcome {
        rows_assigned: attempt.rows_assigned,
        rows_failed: attempt.rows_failed,
        rows_remaining,
        source_version,
        published_version: attempt.newest.as_ref().map(|dataset| dataset.version_id()),
        profile: clock.finish(attempt.times, attempt.fragments, attempt.commits),
    })
}

/// Returns the pinned version, or the newest one if a cleanup removed it
/// between two attempts.
async fn at_version(latest: &Arc<Dataset>, version: u64) -> Result<Arc<Dataset>, StorageError> {
    if latest.version_id() == version {
        return Ok(Arc::clone(latest));
    }
    let branch = latest.manifest().branch.clone();
    match latest.checkout_version(Ref::Version(branch, Some(version))).await {
        Ok(dataset) => Ok(Arc::new(dataset)),
        Err(error) => {
            tracing::warn!(version, %error, "the pinned version is gone; the job goes on at the newest one");
            Ok(Arc::clone(latest))
        }
    }
}

pub(super) fn evaluator(snapshot: &Snapshot) -> Result<Evaluator, RefreshError> {
    let column = &snapshot.column;
    if column.kind != computed::ComputedKind::Expression {
        let what = format!("Function column \"{}\"", column.name);
        return Err(StorageError::Unsupported { what }.into());
    }
    let inputs = Arc::new(arrow::datatypes::Schema::from(&snapshot.read_schema(false)));
    Evaluator::new(&column.expression, inputs, &column.data_type)
        .map_err(|source| RefreshError::Expression { column: column.name.clone(), source })
}

async fn computation(
    snapshot: &Snapshot,
    spec: &RefreshSpec,
    host: &FunctionHost,
) -> Result<Computation, RefreshError> {
    match &spec.function {
        None => Ok(Computation::Expression(evaluator(snapshot)?)),
        Some(function) => {
            let inputs = Arc::new(arrow::datatypes::Schema::from(&snapshot.read_schema(false)));
            let output = snapshot.output_schema().fields[0].data_type();
            Ok(Computation::Function(Box::new(host.evaluator(function, inputs, output).await?)))
        }
    }
}

struct Attempt<'a> {
    spec: &'a RefreshSpec,
    ledger: &'a Ledger,
    progress: Arc<Progress>,
    limits: Limits,
    computation: Computation,
    rows_failed: u64,
    /// Fragments that this job made visible, as they are now.
    published: BTreeMap<u64, FragmentProvenance>,
    /// Rows that this job computed in them.
    computed: BTreeMap<u64, RoaringBitmap>,
    rows_assigned: u64,
    /// The table at our last value commit.
    newest: Option<Arc<Dataset>>,
    commits: u64,
    fragments: u64,
    times: StageTimes,
}

impl Attempt<'_> {
    /// Offers what an earlier attempt of the job staged and noted.
    async fn take_over(
        &mut self,
        latest: &Arc<Dataset>,
        pinned: &Snapshot,
        before: &Provenance,
    ) -> Result<(), RefreshError> {
        let intended = self.ledger.intended().await?;
        if intended.is_empty() {
            return Ok(());
        }
        tracing::info!(job = %self.ledger.job(), fragments = intended.len(), "taking over staged fragments");
        let known = pinned.at(Arc::clone(latest))?;
        if known.definition != pinned.definition {
            return Ok(());
        }
        let rows = intended.iter().map(|staged| staged.rows.len()).sum();
        self.progress.planned(intended.len() as u64, rows);
        self.progress.staged(rows);
        self.publish(&known, before, intended).await?;
        Ok(())
    }

    /// Works through a plan and, as long as concurrent writes invalidate staged
    /// fragments, through plans at newer versions.
    async fn work(
        &mut self,
        pinned: &Arc<Snapshot>,
        plan: &RefreshPlan,
        clock: &mut PhaseClock,
    ) -> Result<(), RefreshError> {
        let mut snapshot = Arc::clone(pinned);
        let mut work = self.without_published(plan);
        let mut before = plan.current.clone();
        for round in 0.. {
            if work.is_empty() {
                return Ok(());
            }
            let rows = work.iter().map(|work| work.rows.len()).sum();
            self.progress.planned(work.len() as u64, rows);
            clock.enter("running splits");
            let rejected = self.stage_and_publish(&snapshot, &before, work).await?;
            if rejected == 0 {
                return Ok(());
            }
            if round == ROUNDS_MAX || !self.computation.replannable() {
                return Err(RefreshError::ConcurrentWrite { fragments: rejected, rounds: round });
            }
            clock.enter("planning");
            let mut newest = snapshot.dataset.as_ref().clone();
            newest.checkout_latest().await.map_err(StorageError::from)?;
            snapshot = Arc::new(pinned.at(Arc::new(newest))?);
            let predicate = self.spec.predicate.as_deref();
            let again = plan::plan_from(&snapshot, predicate, Some(&plan.current), &self.published).await?;
            work = self.without_published(&again);
            before = again.current;
        }
        unreachable!("the loop ends by returning")
    }

    /// Leaves out fragments that this job has published and nobody touched since.
    fn without_published(&self, plan: &RefreshPlan) -> Vec<FragmentWork> {
        let newest = self.newest.as_ref().map_or(0, |newest| newest.version_id());
        let done = |work: &&FragmentWork| {
            let id = &work.fragment_id;
            let covered = self.computed.get(id).is_some_and(|computed| work.rows.is_subset(computed));
            // A plan older than our commit does not show it yet.
            covered && (plan.current.version < newest || plan.current.fragments.get(id) == self.published.get(id))
        };
        plan.work.iter().filter(|work| !done(work)).cloned().collect()
    }

    /// Returns the number of fragments whose files did not fit any more.
    async fn stage_and_publish(
        &mut self,
        snapshot: &Arc<Snapshot>,
        before: &Provenance,
        work: Vec<FragmentWork>,
    ) -> Result<usize, RefreshError> {
        let group_size = self.limits.publish_fragments.max(snapshot.dataset.count_fragments() / 100).max(1);
        let workers = self.spec.workers(&self.limits);
        let (computation, progress) = (self.computation.clone(), Arc::clone(&self.progress));
        let mut staging = futures::stream::iter(work)
            .map(|work| spawn_stage(Arc::clone(snapshot), computation.clone(), work, Arc::clone(&progress)))
            .buffer_unordered(workers);
        let mut group = Vec::new();
        let mut rejected = 0;
        let mut last = Instant::now();
        while let Some(staged) = staging.next().await {
            let (staged, times) = staged?;
            self.note(&staged, times);
            group.push(staged);
            if group.len() >= group_size || last.elapsed() >= self.limits.publish_interval {
                rejected += self.publish(snapshot, before, std::mem::take(&mut group)).await?;
                last = Instant::now();
            }
        }
        if !group.is_empty() {
            rejected += self.publish(snapshot, before, group).await?;
        }
        Ok(rejected)
    }

    fn note(&mut self, staged: &StagedFragment, times: StageTimes) {
        self.progress.staged(staged.rows.len());
        self.fragments += 1;
        self.times.read += times.read;
        self.times.evaluate += times.evaluate;
        self.times.write += times.write;
    }

    /// Notes, then commits a group. Returns how many files did not fit.
    async fn publish(
        &mut self,
        snapshot: &Snapshot,
        before: &Provenance,
        group: Vec<StagedFragment>,
    ) -> Result<usize, RefreshError> {
        self.progress.ensure_running()?;
        self.ledger.intend(&group).await?;
        let properties = HashMap::from([
            ("lancegate.job_id".to_owned(), self.ledger.job().to_string()),
            ("lancegate.epoch".to_owned(), self.ledger.epoch().0.to_string()),
            ("lancegate.sequence".to_owned(), self.commits.to_string()),
        ]);
        let replacements: Vec<Replacement> = group.iter().map(replacement).collect();
        let output_id = snapshot.column.field_id;
        let input_ids = &snapshot.input_ids;
        let published = commit::publish(&snapshot.dataset, output_id, input_ids, &replacements, &properties).await?;
        self.commits += u64::from(published.committed);
        let dataset = Arc::new(published.dataset);
        let visible = snapshot.at(Arc::clone(&dataset))?;
        self.account(&visible, before, &group, &published.fragments);
        if let Some(function) = &self.spec.function {
            let visible = group.iter().filter(|staged| published.fragments.contains(&staged.fragment_id));
            for staged in visible {
                self.ledger.record_failures(snapshot, function, staged).await?;
            }
        }
        if !published.fragments.is_empty() {
            self.newest = Some(dataset);
        }
        Ok(published.rejected.len())
    }

    fn account(&mut self, visible: &Snapshot, before: &Provenance, group: &[StagedFragment], published: &[u64]) {
        let output = visible.output_signer();
        let fragments: HashMap<u64, _> =
            visible.dataset.iter_fragments().map(|fragment| (fragment.id, fragment)).collect();
        let mut counted = (0, 0);
        for staged in group {
            let id = staged.fragment_id;
            let fragment = fragments.get(&id).filter(|_| published.contains(&id));
            let Some(fragment) = fragment else {
                self.progress.discarded(staged.rows.len());
                continue;
            };
            counted = (counted.0 + 1, counted.1 + staged.rows.len());
            self.rows_failed += staged.failed.len();
            self.rows_assigned += staged.rows.len() - staged.failed.len();
            let entry = FragmentProvenance {
                // What it was computed from, also if an input moved since.
                inputs: staged.inputs,
                output: output.sign(fragment),
                not_current: not_current(staged, fragment, before),
            };
            self.published.insert(id, entry);
            *self.computed.entry(id).or_default() |= &staged.rows;
        }
        self.progress.published(counted.0, counted.1);
    }

    /// Records what is current now, in a metadata-only commit. Returns the
    /// number of live rows without a current value.
    async fn seal(&mut self, pinned: &Snapshot, plan: &RefreshPlan) -> Result<u64, RefreshError> {
        let now = match &self.newest {
            Some(dataset) => pinned.at(Arc::clone(dataset))?,
            None => pinned.clone(),
        };
        let current = staleness::resolve(&now, Some(&plan.current), &self.published).await?;
        if (self.newest.is_some() || plan.carried)
            && let Err(error) = record(&now, &current).await
        {
            tracing::warn!(job = %self.ledger.job(), %error, "inputs were not recorded; the rows may be computed again");
        }
        Ok(plan::rows_remaining(&now, &current).await?)
    }
}

/// Rows of a published file that hold no current value: all that were neither
/// computed for it nor current in the values that it took over.
fn not_current(staged: &StagedFragment, fragment: &Fragment, before: &Provenance) -> RoaringBitmap {
    let physical = u32::try_from(fragment.physical_rows.unwrap_or_default()).unwrap_or(u32::MAX);
    let mut rows = RoaringBitmap::new();
    rows.insert_range(0..physical);
    rows -= &staged.rows;
    if let Some(taken_over) = before.fragments.get(&staged.fragment_id) {
        let same_inputs = taken_over.inputs == staged.inputs && taken_over.output == staged.replaces;
        if same_inputs {
            rows &= &taken_over.not_current;
        }
    }
    // What failed is tried again by the next refresh.
    rows |= &staged.failed;
    rows
}

async fn record(now: &Snapshot, current: &Provenance) -> Result<(), StorageError> {
    let digest = current.write(&now.dataset).await?;
    commit::set_field_metadata(&now.dataset, now.column.field_id, computed::PROVENANCE, &digest).await?;
    Ok(())
}

fn replacement(staged: &StagedFragment) -> Replacement {
    Replacement {
        fragment_id: staged.fragment_id,
        file: staged.file.clone(),
        inputs: staged.inputs,
        replaces: staged.replaces,
    }
}

/// Stages on a task of its own, so that fragments use several cores.
async fn spawn_stage(
    snapshot: Arc<Snapshot>,
    computation: Computation,
    work: FragmentWork,
    progress: Arc<Progress>,
) -> Result<(StagedFragment, StageTimes), RefreshError> {
    let stage = async move {
        let _active = progress.worker();
        stage_fragment(&snapshot, &computation, &work, &progress).await
    };
    let task = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(stage));
    task.await.map_err(|error| RefreshError::Worker(error.to_string()))?
}
