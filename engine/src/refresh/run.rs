//! One attempt of a refresh job, from its pinned version to the record of the
//! inputs used.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::stream::{Stream, StreamExt};
use lance::Dataset;
use lance::dataset::refs::Ref;
use lance_table::format::Fragment;
use lancegate_catalog::JobKind;
use roaring::RoaringBitmap;
use serde_json::json;
use tokio::time::MissedTickBehavior;

use super::children::Child;
use super::expression::Evaluator;
use super::function::{Computation, FunctionHost, FunctionSpec};
use super::ledger::Ledger;
use super::plan::{self, FragmentWork, RefreshPlan};
use super::profile::PhaseClock;
use super::progress::Progress;
use super::provenance::{Definition, FragmentProvenance, Provenance};
use super::snapshot::{Snapshot, deleted_rows};
use super::splits::Begun;
use super::stage::{Carried, StageTimes, StagedFragment, stage_fragment};
use super::{Limits, RefreshError, RefreshOutcome, RefreshSpec, staleness, tidy};
use crate::failpoint::reach;
use crate::storage::commit::{self, Replacement};
use crate::storage::freshness::Freshness;
use crate::storage::{StorageError, Store, computed, durable};

mod rounds;

/// The longest time for which a complete part is not noted. Parts that are
/// complete sooner after each other share a note.
const NOTE_INTERVAL: Duration = Duration::from_millis(500);
/// Tries of the record of the inputs, and the rest after the first.
const RECORD_ATTEMPTS_MAX: u32 = 3;
const RECORD_REST: Duration = Duration::from_millis(100);

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
    let name = spec.column_in(&pinned)?;
    let snapshot = Arc::new(Snapshot::of(pinned, &name)?);
    reach("refresh.pinned").await?;
    progress.splits().resume(ledger.begun().await?);
    if let Some(function) = &spec.function {
        prepare(ledger, host, function, &progress).await?;
    }
    let computation = computation(&snapshot, spec, host, &limits).await?;
    let mut attempt = Attempt {
        spec,
        ledger,
        progress,
        limits,
        computation,
        definition: snapshot.definition,
        rows_failed: 0,
        published: BTreeMap::new(),
        computed: BTreeMap::new(),
        rows_assigned: 0,
        newest: None,
        commits: 0,
        fragments: 0,
        times: StageTimes::default(),
        unfinished: BTreeSet::new(),
        begun: Begun::new(),
        round: None,
    };
    let plan = plan::plan(&snapshot, spec.predicate.as_deref()).await?;
    reach("refresh.planned").await?;
    let worked = match attempt.take_over(&latest, &snapshot, &plan.current).await {
        Ok(()) => attempt.work(&snapshot, &plan, &mut clock).await,
        Err(error) => Err(error),
    };
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

/// Builds the environment of a Function that is not there: as a part of the job, with what the tool says among its events.
async fn prepare(
    ledger: &Ledger,
    host: &FunctionHost,
    function: &FunctionSpec,
    progress: &Progress,
) -> Result<(), RefreshError> {
    if host.is_prepared(&function.definition) {
        return Ok(());
    }
    let spec = json!({ "function": function.name, "version": function.version });
    let child = Child::begin(ledger, JobKind::BuildEnvironment, spec, None).await?;
    let built = tokio::select! {
        biased;
        () = progress.stopped() => Err(RefreshError::Canceled),
        built = host.prepare(&function.definition) => built.map_err(|error| function.not_ready(error.to_string())),
    };
    if let Some(child) = child {
        let worked = built.as_ref().map(|python| json!({ "python": python.version }));
        if let Ok(python) = &built {
            child.report("environment built", json!({ "output": python.build_output, "python": python.version })).await;
        }
        child.end(progress.sample(), worked).await;
    }
    built.map(drop)
}

async fn computation(
    snapshot: &Snapshot,
    spec: &RefreshSpec,
    host: &FunctionHost,
    limits: &Limits,
) -> Result<Computation, RefreshError> {
    match &spec.function {
        None => Ok(Computation::Expression(evaluator(snapshot)?)),
        // The job is of this Function; another one is the work of another job.
        Some(function) if !function.fills(&snapshot.column) => Err(function.replaced(snapshot)),
        Some(function) => {
            let inputs = Arc::new(arrow::datatypes::Schema::from(&snapshot.read_schema(false)));
            let output = snapshot.value_type();
            Ok(Computation::Function(Box::new(host.evaluator(function, inputs, output, limits).await?)))
        }
    }
}

/// Parts that are complete and not offered yet; the first `noted` are noted.
struct Group {
    noted: usize,
    parts: Vec<StagedFragment>,
}

impl Group {
    fn rows(&self) -> u64 {
        self.parts.iter().map(|part| part.rows.len()).sum()
    }
}

struct Attempt<'a> {
    spec: &'a RefreshSpec,
    ledger: &'a Ledger,
    progress: Arc<Progress>,
    limits: Limits,
    computation: Computation,
    /// What the computation, and all below, are of.
    definition: Definition,
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
    /// Fragments of which more rows are computed after a publication.
    unfinished: BTreeSet<u64>,
    /// What the registry knows of splits that were begun and are not complete.
    begun: Begun,
    /// The plan that is worked through, as it is shown.
    round: Option<Child>,
}

impl Attempt<'_> {
    /// Offers what earlier attempts of the job have noted. One that is to stop
    /// only counts what is visible, so that its inputs are recorded.
    async fn take_over(
        &mut self,
        latest: &Arc<Dataset>,
        pinned: &Snapshot,
        before: &Provenance,
    ) -> Result<(), RefreshError> {
        let mut noted = self.ledger.noted(pinned.definition).await?;
        let known = pinned.at(Arc::clone(latest))?;
        if noted.is_empty() || known.definition != pinned.definition {
            return Ok(());
        }
        let running = self.progress.ensure_running();
        if running.is_err() {
            let visible = |part: &StagedFragment| {
                latest.iter_fragments().any(|fragment| commit::is_visible(fragment, &part.file))
            };
            noted.retain(visible);
        }
        tracing::info!(job = %self.ledger.job(), fragments = noted.len(), "taking over staged fragments");
        self.count_planned(&noted);
        let failed = noted.iter().map(|part| part.failures.rows.len()).sum();
        self.computation.resume(noted.iter().map(|part| part.rows.len()).sum(), failed);
        self.offer(&known, before, noted).await?;
        running
    }

    /// Takes over what ended jobs have left for this plan: parts of exactly the
    /// rows that are due, whose inputs and stored values are where they were. Their
    /// fragments leave the work.
    async fn reuse(
        &mut self,
        snapshot: &Snapshot,
        work: &mut Vec<FragmentWork>,
    ) -> Result<Vec<StagedFragment>, RefreshError> {
        let left_over = self.ledger.left_over(snapshot.definition).await?;
        let (inputs, output) = (snapshot.input_signer(), snapshot.output_signer());
        let mut fitting: BTreeMap<u64, StagedFragment> = BTreeMap::new();
        for mut part in left_over {
            let id = part.fragment_id;
            let due = work.iter().find(|work| work.fragment_id == id);
            let Some(due) = due.filter(|_| !fitting.contains_key(&id)) else { continue };
            let number = usize::try_from(id).expect("Lance fragment ids fit 32 bits");
            let fragment = snapshot.dataset.get_fragment(number).expect("the plan was made on this version");
            let (signed_inputs, signed_output) = (inputs.sign(fragment.metadata()), output.sign(fragment.metadata()));
            if (signed_inputs, signed_output) == (part.inputs, part.replaces)
                && &part.rows - deleted_rows(&fragment).await? == due.rows
                && commit::is_intact(&snapshot.dataset, &part.file).await?
            {
                // Rows that were deleted since count for nothing, and those of earlier pieces were the other job's.
                part.rows.clone_from(&due.rows);
                part.carried = Carried::default();
                fitting.insert(id, part);
            }
        }
        if fitting.is_empty() {
            return Ok(Vec::new());
        }
        let taken = self.ledger.take(fitting.into_values().collect()).await?;
        tracing::info!(job = %self.ledger.job(), fragments = taken.len(), "reusing fragments that ended jobs staged");
        work.retain(|work| taken.iter().all(|part| part.fragment_id != work.fragment_id));
        self.count_planned(&taken);
        Ok(taken)
    }

    fn count_planned(&self, parts: &[StagedFragment]) {
        let rows = parts.iter().map(|part| part.rows.len()).sum();
        self.progress.planned(parts.len() as u64, rows);
        self.progress.staged(rows);
    }

    /// Says how many Function workers the job wants.
    fn plan_fleet(&self, workers: usize) {
        if let Computation::Function(function) = &self.computation {
            let (class, gpus_each) = function.placement();
            self.progress.fleet().plan(workers, class, gpus_each);
        }
    }

    /// Stages fragments, and publishes them with those that are `ready` and noted
    /// already. Returns the number of fragments whose files did not fit any more.
    async fn stage_and_publish(
        &mut self,
        snapshot: &Arc<Snapshot>,
        before: &Provenance,
        work: Vec<FragmentWork>,
        ready: Vec<StagedFragment>,
    ) -> Result<usize, RefreshError> {
        let group_size = self.limits.publish_fragments.max(snapshot.dataset.count_fragments() / 100).max(1);
        let workers = self.computation.workers(self.spec, &self.limits);
        self.plan_fleet(workers.min(work.len()));
        let (computation, progress) = (self.computation.clone(), Arc::clone(&self.progress));
        let mut staging = futures::stream::iter(work)
            .map(|work| spawn_stage(Arc::clone(snapshot), computation.clone(), work, Arc::clone(&progress)))
            .buffer_unordered(workers);
        let mut group = Group { noted: ready.len(), parts: ready };
        let mut rejected = 0;
        let mut last = Instant::now();
        let mut notes = tokio::time::interval_at(tokio::time::Instant::now() + NOTE_INTERVAL, NOTE_INTERVAL);
        notes.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let staged = tokio::select! {
                biased;
                staged = staging.next() => staged,
                _ = notes.tick() => {
                    self.note(snapshot, &mut group).await?;
                    self.tell().await?;
                    if !group.parts.is_empty() && last.elapsed() >= self.limits.publish_interval {
                        rejected += self.publish(snapshot, before, &mut group).await?;
                        last = Instant::now();
                    }
                    continue;
                }
            };
            match staged {
                Some(Ok((part, times))) => {
                    self.count(&part, times);
                    group.parts.push(part);
                }
                Some(Err(error)) => {
                    self.keep(snapshot, &mut group, &mut staging).await;
                    return Err(error);
                }
                None => break,
            }
            let enough = group.parts.len() >= group_size || self.interval().is_some_and(|rows| group.rows() >= rows);
            if enough || last.elapsed() >= self.limits.publish_interval {
                rejected += self.publish(snapshot, before, &mut group).await?;
                last = Instant::now();
            }
        }
        if !group.parts.is_empty() {
            rejected += self.publish(snapshot, before, &mut group).await?;
        }
        Ok(rejected)
    }

    fn count(&mut self, staged: &StagedFragment, times: StageTimes) {
        self.progress.staged(staged.rows.len());
        self.fragments += 1;
        self.times.read += times.read;
        self.times.evaluate += times.evaluate;
        self.times.write += times.write;
    }

    /// Notes the parts of a group that are not noted yet, durably and together.
    async fn note(&self, snapshot: &Snapshot, group: &mut Group) -> Result<(), RefreshError> {
        let new = &mut group.parts[group.noted..];
        if new.is_empty() {
            return Ok(());
        }
        new.iter_mut().for_each(|part| part.carried = self.carried_by(part));
        let names = new.iter().map(|part| part.file.path.as_str());
        durable::sync_data_files(&snapshot.dataset, names).await?;
        reach("note.before").await?;
        self.ledger.note(snapshot.definition, snapshot.dataset.version_id(), new).await?;
        self.progress.splits().noted(new.iter().map(|part| part.fragment_id));
        group.noted = group.parts.len();
        reach("note.after").await?;
        Ok(())
    }

    /// Tells the registry which splits are in work and how far the plan is.
    async fn tell(&mut self) -> Result<(), RefreshError> {
        let begun = self.progress.splits().begun();
        if begun != self.begun {
            self.ledger.note_begun(begun.clone()).await?;
            self.begun = begun;
        }
        if let Some(round) = &mut self.round {
            round.tell("running", self.progress.sample()).await;
        }
        Ok(())
    }

    /// What this job has published of the values that a part took over. Whoever takes the job over finds only the newest
    /// file of a fragment, and knows by this that the pieces before it are done.
    fn carried_by(&self, part: &StagedFragment) -> Carried {
        let id = &part.fragment_id;
        let before =
            self.published.get(id).filter(|entry| (entry.inputs, entry.output) == (part.inputs, part.replaces));
        match (before, self.computed.get(id)) {
            (Some(before), Some(computed)) => {
                Carried { rows: computed - &part.rows, failed: computed & &before.not_current }
            }
            _ => Carried::default(),
        }
    }

    /// Notes what is complete when an attempt ends early, for the next one.
    async fn keep(
        &mut self,
        snapshot: &Snapshot,
        group: &mut Group,
        staging: &mut (impl Stream<Item = Result<(StagedFragment, StageTimes), RefreshError>> + Unpin),
    ) {
        while let Some(Some(staged)) = staging.next().now_or_never() {
            if let Ok((part, times)) = staged {
                self.count(&part, times);
                group.parts.push(part);
            }
        }
        match self.note(snapshot, group).await {
            // Asked to stop: the parts are noted all the same.
            Ok(()) | Err(RefreshError::Canceled) => {}
            Err(error) => tracing::warn!(job = %self.ledger.job(), %error, "complete parts were not noted"),
        }
    }

    /// Notes, then commits a group, which is empty then. Returns how many files
    /// did not fit.
    async fn publish(
        &mut self,
        snapshot: &Snapshot,
        before: &Provenance,
        group: &mut Group,
    ) -> Result<usize, RefreshError> {
        self.note(snapshot, group).await?;
        self.progress.ensure_running()?;
        // Of a lease that was lost, or of a cancel, the registry knows first.
        self.ledger.note(snapshot.definition, snapshot.dataset.version_id(), &[]).await?;
        group.noted = 0;
        self.offer(snapshot, before, std::mem::take(&mut group.parts)).await
    }

    /// Commits noted parts as far as they fit; returns how many did not.
    async fn offer(
        &mut self,
        snapshot: &Snapshot,
        before: &Provenance,
        parts: Vec<StagedFragment>,
    ) -> Result<usize, RefreshError> {
        reach("publish.before").await?;
        let properties = HashMap::from([
            (commit::JOB_ID.to_owned(), self.ledger.job().to_string()),
            ("lancegate.epoch".to_owned(), self.ledger.epoch().0.to_string()),
            ("lancegate.sequence".to_owned(), self.commits.to_string()),
        ]);
        let replacements: Vec<Replacement> = parts.iter().map(replacement).collect();
        let output_ids = &snapshot.output_ids;
        let input_ids = &snapshot.input_ids;
        let same = |at: &Dataset| snapshot.is_defined_so_at(at);
        let published = commit::publish(&snapshot.dataset, output_ids, input_ids, &replacements, &properties, &same);
        let published = published.await?;
        self.commits += u64::from(published.committed);
        let dataset = Arc::new(published.dataset);
        let now = snapshot.at(Arc::clone(&dataset))?;
        if now.definition != snapshot.definition {
            // It was changed while the commit was made. What is visible is not
            // current by it, and nothing may say so.
            parts.iter().for_each(|part| self.progress.discarded(part.rows.len()));
            self.newest = Some(dataset);
            return Ok(parts.len());
        }
        for position in &published.rejected {
            self.progress.discarded(parts[*position].rows.len());
        }
        let visible: Vec<&StagedFragment> = published.visible.iter().map(|position| &parts[*position]).collect();
        self.account(&now, before, &visible);
        if !visible.is_empty() {
            self.newest = Some(dataset);
        }
        reach("publish.after").await?;
        let files = visible.iter().map(|part| part.file.path.clone()).collect();
        let function = self.spec.function.as_ref();
        let failures =
            function.map(|function| visible.iter().map(|part| part.failures_of(snapshot, function)).collect());
        self.ledger.published(files, failures.unwrap_or_default()).await?;
        Ok(published.rejected.len())
    }

    fn account(&mut self, now: &Snapshot, before: &Provenance, visible: &[&StagedFragment]) {
        let output = now.output_signer();
        let fragments: HashMap<u64, _> = now.dataset.iter_fragments().map(|fragment| (fragment.id, fragment)).collect();
        for staged in visible {
            let id = staged.fragment_id;
            let fragment = fragments[&id];
            let entry = FragmentProvenance {
                // What it was computed from, also if an input moved since.
                inputs: staged.inputs,
                output: output.sign(fragment),
                not_current: not_current(staged, fragment, before),
            };
            self.published.insert(id, entry);
            let computed = self.computed.entry(id).or_default();
            // Of pieces that an earlier attempt has published, the newest file tells.
            let earlier = &staged.carried.rows - &*computed;
            let failed = (&earlier & &staged.carried.failed).len();
            *computed |= &staged.rows;
            *computed |= &earlier;
            self.rows_failed += failed;
            self.rows_assigned += earlier.len() - failed;
            self.progress.staged(earlier.len());
            self.progress.published(0, earlier.len());
        }
        let rows = visible.iter().map(|staged| staged.rows.len()).sum();
        let failed: u64 = visible.iter().map(|staged| staged.failures.rows.len()).sum();
        self.rows_failed += failed;
        self.rows_assigned += rows - failed;
        let finished = visible.iter().filter(|staged| !self.unfinished.contains(&staged.fragment_id)).count();
        self.progress.published(finished as u64, rows);
    }

    /// Records what is current now, in a metadata-only commit. Returns the
    /// number of live rows without a current value.
    async fn seal(&mut self, pinned: &Snapshot, plan: &RefreshPlan) -> Result<u64, RefreshError> {
        let now = match &self.newest {
            Some(dataset) => pinned.at(Arc::clone(dataset))?,
            None => pinned.clone(),
        };
        let none = BTreeMap::new();
        let published = if now.definition == self.definition { &self.published } else { &none };
        let current = staleness::resolve(&now, Some(&plan.current), published).await?;
        if self.newest.is_some() || plan.carried {
            // Whoever holds the job now records what is true then. A cancel is no reason not to.
            if let Err(RefreshError::LeaseLost) = self.ledger.note(now.definition, now.dataset.version_id(), &[]).await
            {
                return Err(RefreshError::LeaseLost);
            }
            if let Err(error) = record_surely(&now, &current).await {
                tracing::warn!(job = %self.ledger.job(), %error, "inputs were not recorded; the rows may be computed again");
            }
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
    rows -= &staged.carried.rows;
    if let Some(taken_over) = before.fragments.get(&staged.fragment_id) {
        let same_inputs = taken_over.inputs == staged.inputs && taken_over.output == staged.replaces;
        if same_inputs {
            rows &= &taken_over.not_current;
        }
    }
    // What failed is tried again by the next refresh.
    rows |= &staged.failures.rows;
    rows |= &staged.carried.failed;
    rows
}

/// Tries more than once: without the record all that the job did is done again.
async fn record_surely(now: &Snapshot, current: &Provenance) -> Result<(), StorageError> {
    for attempt in 1..RECORD_ATTEMPTS_MAX {
        match record(now, current).await {
            Err(error) if error.is_transient() => tracing::info!(attempt, %error, "recording the inputs again"),
            ended => return ended,
        }
        tokio::time::sleep(RECORD_REST * attempt).await;
    }
    record(now, current).await
}

async fn record(now: &Snapshot, current: &Provenance) -> Result<(), StorageError> {
    reach("record.before").await?;
    let mut entries = vec![(computed::PROVENANCE, current.write(&now.dataset).await?)];
    if let Some(signatures) = plan::wholly_current(now, current).await? {
        entries.extend(Freshness::write(&now.dataset, &now.column, &signatures).await?);
    }
    reach("record.written").await?;
    let same = |at: &Dataset| now.is_defined_so_at(at);
    commit::set_field_metadata(&now.dataset, now.column.field_id, &entries, &same).await?;
    reach("record.after").await?;
    match tidy::remove_unnamed_records(&now.dataset).await {
        Ok(0) => {}
        Ok(removed) => tracing::info!(removed, "removed provenance records that no version names"),
        Err(error) => tracing::warn!(%error, "old provenance records could not be looked through"),
    }
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
        let worker = progress.splits().begin(work.fragment_id, &work.rows);
        let staged = stage_fragment(&snapshot, &computation, &work, (&progress, &worker)).await;
        if staged.as_ref().is_err_and(|error| !matches!(error, RefreshError::Canceled | RefreshError::LeaseLost)) {
            worker.gives_up();
        }
        staged
    };
    let task = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(stage));
    task.await.map_err(|error| RefreshError::Worker(error.to_string()))?
}
