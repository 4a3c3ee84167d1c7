//! From a plan to published fragments: as many rounds as it takes.
//!
//! Without concurrent writes and without `publication_interval_rows` there is one round. A write that invalidates staged
//! fragments makes another round at the newest version, a few times (RC-15). With `publication_interval_rows`, a round
//! computes no more than so many rows of a fragment and publishes them; the next one goes on from there.

use std::sync::Arc;

use lancegate_catalog::JobKind;
use serde_json::json;

use super::{
    Attempt, Child, Computation, FragmentWork, PhaseClock, RefreshError, RefreshPlan, Snapshot, StagedFragment,
    evaluator, plan,
};
use crate::refresh::snapshot::deleted_rows;
use crate::storage::StorageError;

/// Times that rows invalidated by concurrent writes are planned again (RC-15).
const CONFLICTS_MAX: u32 = 3;

impl Attempt<'_> {
    /// Works through a plan; see the module documentation.
    pub(super) async fn work(
        &mut self,
        pinned: &Arc<Snapshot>,
        plan: &RefreshPlan,
        clock: &mut PhaseClock,
    ) -> Result<(), RefreshError> {
        let worked = self.rounds(pinned, plan, clock).await;
        if worked.is_err() {
            // For the next attempt.
            self.tell().await?;
        }
        self.end_round(worked.as_ref().map(|()| 0)).await;
        worked
    }

    async fn rounds(
        &mut self,
        pinned: &Arc<Snapshot>,
        plan: &RefreshPlan,
        clock: &mut PhaseClock,
    ) -> Result<(), RefreshError> {
        let mut snapshot = Arc::clone(pinned);
        let mut work = self.without_published(plan);
        let mut before = plan.current.clone();
        if let Some((now, rest)) = self.resumed(pinned, &work).await? {
            before.fragments.extend(self.published.clone());
            (snapshot, work) = (now, rest);
        }
        let mut ready: Vec<StagedFragment> = self.reuse(&snapshot, &mut work).await?;
        let mut conflicts = 0;
        self.plan_progress(&work);
        while !work.is_empty() || !ready.is_empty() {
            clock.enter("running splits");
            self.begin_round(&snapshot, conflicts).await?;
            let later = self.cut(&mut work);
            let ready = std::mem::take(&mut ready);
            let mut rejected = self.stage_and_publish(&snapshot, &before, work, ready).await?;
            if rejected == 0 && later.is_empty() {
                return Ok(());
            }
            let mut newest = snapshot.dataset.as_ref().clone();
            newest.checkout_latest().await.map_err(StorageError::from)?;
            let now = Arc::new(pinned.at(Arc::new(newest))?);
            if rejected == 0 {
                match self.rest(&snapshot, &now, &later).await? {
                    Some(rest) => {
                        self.progress
                            .unplanned(later.len() as u64 - rest.len() as u64, rows_of(&later) - rows_of(&rest));
                        before.fragments.extend(self.published.clone());
                        (snapshot, work) = (now, rest);
                        continue;
                    }
                    None => rejected = later.len(),
                }
            }
            if conflicts == CONFLICTS_MAX || !self.computation.replannable() {
                return Err(RefreshError::ConcurrentWrite { fragments: rejected, rounds: conflicts });
            }
            conflicts += 1;
            self.end_round(Ok(rejected)).await;
            clock.enter("planning");
            snapshot = now;
            self.follow(&snapshot)?;
            let predicate = self.spec.predicate.as_deref();
            let again = plan::plan_from(&snapshot, predicate, Some(&plan.current), &self.published).await?;
            work = self.without_published(&again);
            before = again.current;
            self.progress.unplanned(later.len() as u64, rows_of(&later));
            self.plan_progress(&work);
        }
        Ok(())
    }

    /// Shows a plan of a Function refresh as a part of the job, unless it is shown.
    async fn begin_round(&mut self, snapshot: &Snapshot, conflicts: u32) -> Result<(), RefreshError> {
        if self.spec.function.is_none() || self.round.is_some() {
            return Ok(());
        }
        let spec = json!({ "round": conflicts + 1, "source_version": snapshot.dataset.version_id() });
        let sample = self.progress.sample();
        self.round = Child::begin(self.ledger, JobKind::RefreshSplits, spec, Some(sample)).await?;
        if let Some(round) = &mut self.round {
            round.tell("running", sample).await;
        }
        Ok(())
    }

    /// Ends what is shown of a plan, with the number of fragments whose files did not fit.
    async fn end_round(&mut self, worked: Result<usize, &RefreshError>) {
        if let Some(round) = self.round.take() {
            let worked = worked.map(|rejected| json!({ "fragments_rejected": rejected }));
            round.end(self.progress.sample(), worked).await;
        }
    }

    fn plan_progress(&self, work: &[FragmentWork]) {
        self.progress.planned(work.len() as u64, rows_of(work));
        self.progress.splits().queue(work.iter().map(|work| (work.fragment_id, &work.rows)));
    }

    /// Goes on with another definition, if that is the column's now. What was
    /// published by the one before counts for nothing.
    fn follow(&mut self, snapshot: &Snapshot) -> Result<(), RefreshError> {
        if snapshot.definition == self.definition {
            return Ok(());
        }
        tracing::info!(job = %self.ledger.job(), "the column is computed by something else now");
        self.computation = match &self.spec.function {
            None => Computation::Expression(evaluator(snapshot)?),
            Some(function) => return Err(function.replaced(snapshot)),
        };
        self.definition = snapshot.definition;
        self.published.clear();
        self.computed.clear();
        Ok(())
    }

    /// Leaves out fragments that this job has published and nobody touched since.
    fn without_published(&self, plan: &RefreshPlan) -> Vec<FragmentWork> {
        let newest = self.newest.as_ref().map_or(0, |newest| newest.version_id());
        let remaining = |work: &FragmentWork| {
            let id = &work.fragment_id;
            // A plan older than our commit does not show it yet.
            let untouched = plan.current.version < newest || plan.current.fragments.get(id) == self.published.get(id);
            match self.computed.get(id).filter(|_| untouched) {
                None => Some(work.clone()),
                Some(computed) if work.rows.is_subset(computed) => None,
                Some(computed) => Some(FragmentWork { fragment_id: *id, rows: &work.rows - computed, whole: false }),
            }
        };
        plan.work.iter().filter_map(remaining).collect()
    }

    /// Where an earlier attempt has published the first pieces of a fragment, the next ones go into the table as it is
    /// now, unless another write has come between.
    async fn resumed(
        &self,
        pinned: &Snapshot,
        work: &[FragmentWork],
    ) -> Result<Option<(Arc<Snapshot>, Vec<FragmentWork>)>, RefreshError> {
        let Some(newest) = &self.newest else { return Ok(None) };
        if !work.iter().any(|work| self.computed.contains_key(&work.fragment_id)) {
            return Ok(None);
        }
        let now = Arc::new(pinned.at(Arc::clone(newest))?);
        let rest = self.rest(pinned, &now, work).await?;
        Ok(rest.map(|rest| (now, rest)))
    }

    /// Returns after how many rows a version is published, if the statement says so.
    pub(super) fn interval(&self) -> Option<u64> {
        self.spec.function.as_ref()?.publication_interval_rows
    }

    /// Cuts off the rows of each fragment that are beyond the interval.
    fn cut(&mut self, work: &mut [FragmentWork]) -> Vec<FragmentWork> {
        let mut later = Vec::new();
        if let Some(most) = self.interval() {
            for work in work {
                let first = u32::try_from(most).ok().and_then(|most| work.rows.select(most));
                let Some(first) = first else { continue };
                let mut rows = work.rows.clone();
                rows.remove_range(..first);
                work.rows.remove_range(first..);
                work.whole = false;
                later.push(FragmentWork { fragment_id: work.fragment_id, rows, whole: false });
            }
        }
        self.unfinished = later.iter().map(|work| work.fragment_id).collect();
        later
    }

    /// Returns what is left of the rest after a publication: without rows that were deleted since. `None` if another
    /// write has come between.
    async fn rest(
        &self,
        before: &Snapshot,
        now: &Snapshot,
        later: &[FragmentWork],
    ) -> Result<Option<Vec<FragmentWork>>, RefreshError> {
        let (then, inputs, output) = (before.input_signer(), now.input_signer(), now.output_signer());
        let stored = before.output_signer();
        let mut rest = Vec::with_capacity(later.len());
        for work in later {
            let number = usize::try_from(work.fragment_id).expect("Lance fragment ids fit 32 bits");
            let fragments = (before.dataset.get_fragment(number), now.dataset.get_fragment(number));
            let (Some(earlier), Some(fragment)) = fragments else { return Ok(None) };
            let written = self.published.get(&work.fragment_id).map(|entry| entry.output);
            let expected = written.unwrap_or_else(|| stored.sign(earlier.metadata()));
            if then.sign(earlier.metadata()) != inputs.sign(fragment.metadata())
                || expected != output.sign(fragment.metadata())
            {
                return Ok(None);
            }
            let rows = &work.rows - deleted_rows(&fragment).await?;
            if !rows.is_empty() {
                rest.push(FragmentWork { rows, ..work.clone() });
            }
        }
        Ok(Some(rest))
    }
}

fn rows_of(work: &[FragmentWork]) -> u64 {
    work.iter().map(|work| work.rows.len()).sum()
}
