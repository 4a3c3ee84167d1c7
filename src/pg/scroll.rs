//! Cursors that go both ways (`DECLARE … SCROLL`).
//!
//! Rows that were read are kept, in the memory that all queries share, so that the cursor
//! can go back to them (PostgreSQL, "DECLARE": a query that cannot be run backwards is
//! materialized). A cursor stands before the first row, on a row, or after the last.

use arrow::array::RecordBatch;
use datafusion::execution::memory_pool::MemoryReservation;
use lancegate_engine::error::{Result, SqlError};
use lancegate_sql::ast::FetchDirection;

/// What a cursor has read, and where it stands.
#[derive(Debug)]
pub(in crate::pg) struct Scroll {
    /// What was read, each with the number of its first row, which counts from 1.
    kept: Vec<(u64, RecordBatch)>,
    /// The rows that were read.
    read: u64,
    /// Whether these are all.
    ended: bool,
    /// 0 before the first row; one more than there are rows after the last.
    position: u64,
    reservation: MemoryReservation,
}

/// The rows that a FETCH gives, by their numbers, and where the cursor then stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::pg) struct Pass {
    /// The first row; none if `count` is 0.
    pub(in crate::pg) first: u64,
    pub(in crate::pg) count: u64,
    /// Whether they come in reverse.
    pub(in crate::pg) backward: bool,
    position: u64,
}

impl Scroll {
    pub(in crate::pg) fn new(reservation: MemoryReservation) -> Self {
        Self { kept: Vec::new(), read: 0, ended: false, position: 0, reservation }
    }

    /// Keeps what was read; nothing at the end.
    ///
    /// # Errors
    /// 53200 when the memory is used up.
    pub(in crate::pg) fn keep(&mut self, batch: Option<RecordBatch>) -> Result<()> {
        let Some(batch) = batch else {
            self.ended = true;
            return Ok(());
        };
        if batch.num_rows() > 0 {
            self.reservation.try_grow(batch.get_array_memory_size()).map_err(SqlError::from)?;
            let rows = batch.num_rows() as u64;
            self.kept.push((self.read + 1, batch));
            self.read += rows;
        }
        Ok(())
    }

    /// Returns whether more has to be read before a FETCH can be answered.
    pub(in crate::pg) fn lacks(&self, direction: FetchDirection) -> bool {
        let needed = match direction {
            FetchDirection::Forward(count) => self.position.saturating_add(count),
            FetchDirection::ForwardAll => u64::MAX,
            FetchDirection::Absolute(row) => u64::try_from(row).unwrap_or(u64::MAX),
            FetchDirection::Relative(rows) => self.position.saturating_add_signed(rows),
            FetchDirection::Backward(_) | FetchDirection::BackwardAll => 0,
        };
        !self.ended && self.read < needed
    }

    /// Returns the rows that a FETCH gives, once all that it needs was read.
    pub(in crate::pg) fn pass(&self, direction: FetchDirection) -> Pass {
        pass(direction, self.position, self.read)
    }

    /// The cursor has gone past these rows.
    pub(in crate::pg) fn went(&mut self, pass: Pass) {
        self.position = pass.position;
    }

    /// Returns the batch that has a row, and where in it.
    pub(in crate::pg) fn row(&self, number: u64) -> Option<(&RecordBatch, usize)> {
        let at = self.kept.partition_point(|(first, _)| *first <= number).checked_sub(1)?;
        let (first, batch) = self.kept.get(at)?;
        let index = usize::try_from(number - first).ok()?;
        (index < batch.num_rows()).then_some((batch, index))
    }
}

/// Where a FETCH of `direction` goes from `position` among `rows` rows.
fn pass(direction: FetchDirection, position: u64, rows: u64) -> Pass {
    let after_last = rows.saturating_add(1);
    let forward = |count: u64| {
        let end = position.saturating_add(count).min(rows);
        let count = end.saturating_sub(position);
        (position + 1, count, position.saturating_add(count))
    };
    let one = |row: Option<u64>| match row {
        // Before the first row or after the last there is none.
        None | Some(0) => Pass { first: 0, count: 0, backward: false, position: 0 },
        Some(row) if row > rows => Pass { first: 0, count: 0, backward: false, position: after_last },
        Some(row) => Pass { first: row, count: 1, backward: false, position: row },
    };
    match direction {
        FetchDirection::Forward(0) | FetchDirection::Relative(0) => {
            let count = u64::from((1..=rows).contains(&position));
            Pass { first: position, count, backward: false, position }
        }
        FetchDirection::Forward(wanted) => {
            let (first, count, reached) = forward(wanted);
            let position = if count < wanted { after_last } else { reached };
            Pass { first, count, backward: false, position }
        }
        FetchDirection::ForwardAll => {
            let (first, count, _) = forward(u64::MAX);
            Pass { first, count, backward: false, position: after_last }
        }
        FetchDirection::Backward(0) => pass(FetchDirection::Forward(0), position, rows),
        FetchDirection::Backward(wanted) => {
            let before = position.saturating_sub(1);
            let count = before.min(wanted);
            let first = before - count + 1;
            Pass { first, count, backward: true, position: if count < wanted { 0 } else { first } }
        }
        FetchDirection::BackwardAll => {
            let count = position.saturating_sub(1);
            Pass { first: 1, count, backward: true, position: 0 }
        }
        FetchDirection::Absolute(row) if row < 0 => one(after_last.checked_add_signed(row)),
        FetchDirection::Absolute(row) => one(Some(row.unsigned_abs())),
        FetchDirection::Relative(distance) => one(position.checked_add_signed(distance)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs FETCHes over five rows and returns the rows of each.
    fn rows(directions: &[FetchDirection]) -> Vec<Vec<u64>> {
        let mut position = 0;
        let fetch = |direction: &FetchDirection| {
            let passed = pass(*direction, position, 5);
            position = passed.position;
            let rows = passed.first..passed.first + passed.count;
            if passed.backward { rows.rev().collect() } else { rows.collect() }
        };
        directions.iter().map(fetch).collect()
    }

    #[test]
    fn a_cursor_goes_where_postgresql_s_goes() {
        use FetchDirection::{Absolute, Backward, BackwardAll, Forward, ForwardAll, Relative};
        // As PostgreSQL 15 answers for generate_series(1, 5).
        assert_eq!(rows(&[Forward(2), Backward(1), Backward(1), Forward(1)]), [vec![1, 2], vec![1], vec![], vec![1]]);
        assert_eq!(rows(&[ForwardAll, Backward(2), Forward(0)]), [vec![1, 2, 3, 4, 5], vec![5, 4], vec![4]]);
        assert_eq!(rows(&[Forward(9), Forward(1), Backward(1)]), [vec![1, 2, 3, 4, 5], vec![], vec![5]]);
        assert_eq!(rows(&[Forward(5), Backward(1)]), [vec![1, 2, 3, 4, 5], vec![4]]);
        assert_eq!(rows(&[Absolute(3), Relative(1), Relative(-2), Relative(0)]), [vec![3], vec![4], vec![2], vec![2]]);
        assert_eq!(rows(&[Absolute(-1), Absolute(-5), Absolute(-6), Forward(1)]), [vec![5], vec![1], vec![], vec![1]]);
        assert_eq!(rows(&[Absolute(6), Relative(-1), Absolute(0)]), [vec![], vec![5], vec![]]);
        assert_eq!(rows(&[Absolute(3), BackwardAll, Forward(1)]), [vec![3], vec![2, 1], vec![1]]);
        assert_eq!(rows(&[Absolute(3), Backward(9), Forward(1)]), [vec![3], vec![2, 1], vec![1]]);
        assert_eq!(rows(&[Relative(-1), Forward(0)]), [vec![], vec![]] as [Vec<u64>; 2]);
    }
}
