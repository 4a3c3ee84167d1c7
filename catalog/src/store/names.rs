//! What names stand for, in memory.
//!
//! Every statement looks its names up, also along paths where most of them are
//! not, and names seldom change.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Result;
use crate::object::{Database, Namespace, Table, TableName};

/// Answers of one kind that are kept; one more, and all are forgotten.
const ANSWERS_MAX: usize = 4_096;

/// Keeps answers until the writer changes a name.
#[derive(Debug, Default)]
pub(super) struct NameCache {
    answers: Mutex<Answers>,
}

#[derive(Debug, Default)]
struct Answers {
    /// Counts invalidations, so that what was read before one is not kept.
    generation: u64,
    tables: HashMap<TableName, Option<Table>>,
    databases: HashMap<String, Option<Database>>,
    namespaces: HashMap<(String, Vec<String>), Option<Namespace>>,
}

impl NameCache {
    /// Forgets everything. Called after the commit of a change and before it is
    /// acknowledged.
    pub(super) fn invalidate(&self) {
        let mut answers = self.answers();
        let generation = answers.generation + 1;
        *answers = Answers { generation, ..Answers::default() };
    }

    pub(super) async fn table(
        &self,
        name: &TableName,
        read: impl Future<Output = Result<Option<Table>>>,
    ) -> Result<Option<Table>> {
        self.answer(|answers| &mut answers.tables, name, read).await
    }

    pub(super) async fn database(
        &self,
        name: &str,
        read: impl Future<Output = Result<Option<Database>>>,
    ) -> Result<Option<Database>> {
        self.answer(|answers| &mut answers.databases, &name.to_owned(), read).await
    }

    pub(super) async fn namespace(
        &self,
        (database, path): (&str, &[String]),
        read: impl Future<Output = Result<Option<Namespace>>>,
    ) -> Result<Option<Namespace>> {
        self.answer(|answers| &mut answers.namespaces, &(database.to_owned(), path.to_vec()), read).await
    }

    async fn answer<K: Eq + Hash + Clone, V: Clone>(
        &self,
        of: fn(&mut Answers) -> &mut HashMap<K, Option<V>>,
        name: &K,
        read: impl Future<Output = Result<Option<V>>>,
    ) -> Result<Option<V>> {
        let generation = {
            let mut answers = self.answers();
            if let Some(known) = of(&mut answers).get(name) {
                return Ok(known.clone());
            }
            answers.generation
        };
        let found = read.await?;
        let mut answers = self.answers();
        if answers.generation == generation {
            let known = of(&mut answers);
            if known.len() >= ANSWERS_MAX {
                known.clear();
            }
            known.insert(name.clone(), found.clone());
        }
        Ok(found)
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        // No panic can happen while it is held.
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
