//! What names stand for in one session: what the metadata store says, and above it the
//! changes that the session's open block has made, which nobody else sees before COMMIT.
//!
//! CREATE, ALTER … RENAME, DROP and COMMENT of relations, CREATE and DROP of schemas, GRANT and
//! REVOKE are [`ObjectChange`]s. Outside of a block they are made at once. A block collects them
//! here, and every lookup of the session goes through them. Privileges that the block gives on
//! what it has not made, or takes from there, begin with COMMIT. COMMIT makes all of
//! them in one transaction of the metadata store, so others never see some without the rest;
//! ROLLBACK forgets them (see [`crate::exec::names`]). Files of a table that a block has made
//! are in a folder that no name points to and that is marked for deletion; nothing of a table
//! that it drops is deleted before COMMIT.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use lancegate_auth::{Grants, Object, Requirement, Subject};
use lancegate_catalog::{Catalog, CatalogError, EntityKind, NewJob, ObjectChange, Table, TableId, TableName};

use crate::exec::Engine;
use crate::exec::places::Place;
use crate::sql::resolve::object_of;

/// See the module documentation.
#[derive(Debug, Default)]
pub struct Names {
    block: Mutex<Block>,
    /// What deletes the files when the session ends.
    engine: OnceLock<Engine>,
}

/// What an open block has changed.
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// In the order in which they were made.
    pub(crate) changes: Vec<ObjectChange>,
    /// The tables that it has made, with their files; also those that it has dropped again.
    pub(crate) made: Vec<Made>,
    /// The refreshes of tables that it has made: they begin when those have their names.
    pub(crate) jobs: Vec<NewJob>,
    /// What its changes need, also those that were undone.
    needs: Vec<Requirement>,
    /// Each relation that a change is about as the store has it, unless the block has made it.
    before: HashMap<TableId, Table>,
    /// Each relation that a change is about as the block has left it; `None` if it has dropped it.
    after: HashMap<TableId, Option<Table>>,
    /// Whether there is a schema of the path in the database, where the block has changed that.
    schemas: HashMap<(String, Vec<String>), bool>,
}

/// A table that an open block has made.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) record: Table,
    /// Nobody else makes a table there.
    place: Place,
    /// The number of changes before it was made.
    at: usize,
}

impl Made {
    /// Returns where its files are.
    pub(crate) fn location(&self) -> &str {
        self.place.location()
    }
}

/// How far an open block has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Mark {
    changes: usize,
    jobs: usize,
}

impl Names {
    /// Returns what a name stands for.
    ///
    /// # Errors
    /// If the metadata store fails.
    pub(crate) async fn table(&self, catalog: &Catalog, name: &TableName) -> Result<Option<Table>, CatalogError> {
        let changed = self.block().find(name);
        match changed {
            Some(Some(table)) => {
                self.ensure_as_before(catalog, table.id).await?;
                Ok(Some(table))
            }
            Some(None) => Ok(None),
            None => catalog.table(name).await,
        }
    }

    /// Refuses to go on with a relation that another session has renamed or dropped since the block first changed it:
    /// what its name allows would be said of another one.
    async fn ensure_as_before(&self, catalog: &Catalog, id: TableId) -> Result<(), CatalogError> {
        let Some(before) = self.block().before.get(&id).cloned() else { return Ok(()) };
        match catalog.table_by_id(id).await? {
            Some(stored) if stored.name == before.name && stored.owner == before.owner => Ok(()),
            Some(_) => Err(CatalogError::ChangedMeanwhile { name: before.name.name }),
            None => Err(CatalogError::not_found(EntityKind::Table, before.name)),
        }
    }

    /// Refuses the changes of a block if another session has renamed or dropped what they are about.
    ///
    /// # Errors
    /// [`ChangedMeanwhile`](CatalogError::ChangedMeanwhile), or if the metadata store fails.
    pub(crate) async fn ensure_all_as_before(&self, catalog: &Catalog) -> Result<(), CatalogError> {
        let ids: Vec<TableId> = self.block().before.keys().copied().collect();
        for id in ids {
            self.ensure_as_before(catalog, id).await?;
        }
        Ok(())
    }

    /// Returns what a statement of the block needs on what the store has, under the names that it has there.
    pub(crate) fn stored(&self, needs: Vec<Requirement>) -> Vec<Requirement> {
        let block = self.block();
        needs.into_iter().filter_map(|need| block.stored(need)).collect()
    }

    /// Remembers what the caller needed for a change of the block, which COMMIT asks for again.
    pub(crate) fn require(&self, needs: Vec<Requirement>) {
        let mut block = self.block();
        for need in needs {
            if !block.needs.contains(&need) {
                block.needs.push(need);
            }
        }
    }

    /// Returns whom the block gives privileges to.
    pub(crate) fn grantees(&self) -> Vec<Subject> {
        let block = self.block();
        let grantees = block.changes.iter().filter_map(|change| match change {
            ObjectChange::Grant(grant) => Some(grant.subject.clone()),
            _ => None,
        });
        grantees.collect()
    }

    /// Returns what the changes of the block need.
    pub(crate) fn needs(&self) -> Vec<Requirement> {
        self.block().needs.clone()
    }

    /// Returns whether the open block has changed names.
    pub(crate) fn have_changed(&self) -> bool {
        !self.block().changes.is_empty()
    }

    /// Returns whether the block has taken a name from the relation that has it in the store.
    pub(crate) fn hides(&self, name: &TableName) -> bool {
        self.block().find(name) == Some(None)
    }

    /// Returns the relations of a database by schema and name; of one schema, if it is given.
    ///
    /// # Errors
    /// If the metadata store fails.
    pub(crate) async fn tables(
        &self,
        catalog: &Catalog,
        database: &str,
        namespace: Option<&[String]>,
    ) -> Result<Vec<Table>, CatalogError> {
        let mut tables = catalog.tables(database, namespace).await?;
        let block = self.block();
        if block.after.is_empty() {
            return Ok(tables);
        }
        tables.retain(|table| !block.after.contains_key(&table.id));
        let of_block = block.after.values().flatten().filter(|table| {
            table.name.database == database && namespace.is_none_or(|wanted| wanted == table.name.namespace)
        });
        tables.extend(of_block.cloned());
        tables.sort_by(|a, b| (&a.name.namespace, &a.name.name).cmp(&(&b.name.namespace, &b.name.name)));
        Ok(tables)
    }

    /// Returns whether a database has a schema; that of the root it always has.
    ///
    /// # Errors
    /// If the metadata store fails.
    pub(crate) async fn has_schema(
        &self,
        catalog: &Catalog,
        database: &str,
        path: &[String],
    ) -> Result<bool, CatalogError> {
        let changed = self.block().schemas.get(&(database.to_owned(), path.to_owned())).copied();
        match changed {
            Some(known) => Ok(known),
            None => Ok(path.is_empty() || catalog.namespace(database, path).await?.is_some()),
        }
    }

    /// Returns the paths of the schemas of a database, without the root.
    ///
    /// # Errors
    /// If the metadata store fails.
    pub(crate) async fn schemas(&self, catalog: &Catalog, database: &str) -> Result<Vec<Vec<String>>, CatalogError> {
        let mut paths: Vec<_> = catalog.namespaces(database).await?.into_iter().map(|found| found.path).collect();
        let block = self.block();
        if !block.schemas.is_empty() {
            paths.retain(|path| block.schemas.get(&(database.to_owned(), path.clone())) != Some(&false));
            let made = block.schemas.iter().filter(|((of, _), there)| of == database && **there);
            let made: Vec<_> = made.map(|((_, path), _)| path.clone()).filter(|path| !paths.contains(path)).collect();
            paths.extend(made);
            paths.sort();
        }
        Ok(paths)
    }

    /// Returns the grants, with what the block gives on relations and schemas that it has made itself. What it gives on
    /// others, and takes from them, begins with COMMIT: nobody may use it before, not even who loses it meanwhile.
    ///
    /// # Errors
    /// If the metadata store fails.
    pub(crate) async fn grants(&self, catalog: &Catalog) -> Result<Arc<Grants>, CatalogError> {
        let grants = catalog.grants().await?;
        let schemas: Vec<_> = {
            let block = self.block();
            if block.changes.is_empty() {
                return Ok(grants);
            }
            block.schemas.iter().filter(|(_, there)| **there).map(|(schema, _)| schema.clone()).collect()
        };
        let mut made = HashSet::new();
        for (database, path) in schemas {
            if catalog.namespace(&database, &path).await?.is_none() {
                made.insert(Object::Namespace { database, path });
            }
        }
        let mut grants = Grants::clone(&grants);
        self.block().change(&mut grants, made);
        Ok(Arc::new(grants))
    }

    /// Returns the comments on parts of relations, on schemas and on databases, by object and part.
    ///
    /// # Errors
    /// If the metadata store fails.
    pub(crate) async fn comments(&self, catalog: &Catalog) -> Result<HashMap<(String, String), String>, CatalogError> {
        let mut comments = catalog.comments().await?;
        for change in &self.block().changes {
            if let ObjectChange::Comment { object, part, comment } = change {
                let key = (object.clone(), part.clone());
                match comment {
                    Some(comment) => comments.insert(key, comment.clone()),
                    None => comments.remove(&key),
                };
            }
        }
        Ok(comments)
    }

    /// Returns whether the open block has made a table.
    pub(crate) fn has_made(&self, table: TableId) -> bool {
        self.block().made.iter().any(|made| made.record.id == table)
    }

    /// Adds changes of the open block, all or none.
    ///
    /// # Errors
    /// [`AlreadyExists`](CatalogError::AlreadyExists), [`NotFound`](CatalogError::NotFound),
    /// [`NotEmpty`](CatalogError::NotEmpty); those that only the store finds are COMMIT's.
    pub(crate) async fn add(&self, catalog: &Catalog, changes: Vec<ObjectChange>) -> Result<(), CatalogError> {
        let begin = self.mark();
        for change in changes {
            if let Err(error) = self.add_one(catalog, change).await {
                self.block().truncate(begin);
                return Err(error);
            }
        }
        Ok(())
    }

    async fn add_one(&self, catalog: &Catalog, change: ObjectChange) -> Result<(), CatalogError> {
        if let Some(id) = change.relation() {
            let known = self.block().after.get(&id).map(Option::is_some);
            if known == Some(false) {
                return Err(CatalogError::not_found(EntityKind::Table, id));
            }
            if known.is_none() {
                let stored = catalog.table_by_id(id).await?;
                let stored = stored.ok_or_else(|| CatalogError::not_found(EntityKind::Table, id))?;
                self.block().begin_with(stored);
            }
        }
        match &change {
            ObjectChange::CreateTable(Table { name, .. }) | ObjectChange::RenameTable { to: name, .. } => {
                let taken = self.table(catalog, name).await?;
                taken.map_or(Ok(()), |_| Err(CatalogError::already_exists(EntityKind::Table, name)))?;
            }
            ObjectChange::CreateNamespace(made) => {
                let taken = self.has_schema(catalog, &made.database, &made.path).await?;
                let free = (!taken).then_some(());
                free.ok_or_else(|| CatalogError::already_exists(EntityKind::Namespace, made.path.join("$")))?;
            }
            ObjectChange::DropNamespace { database, path } => {
                if !self.has_schema(catalog, database, path).await? {
                    return Err(CatalogError::not_found(EntityKind::Namespace, path.join("$")));
                }
                let inner = self.schemas(catalog, database).await?;
                let is_above = inner.iter().any(|inner| inner.len() > path.len() && inner.starts_with(path));
                if is_above || !self.tables(catalog, database, Some(path)).await?.is_empty() {
                    return Err(CatalogError::NotEmpty { kind: EntityKind::Namespace, name: path.join("$") });
                }
            }
            _ => {}
        }
        self.block().note(change);
        Ok(())
    }

    /// Keeps the files of a table that the open block is about to name, or gives them back if it cannot.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub(crate) async fn add_made(
        &self,
        engine: &Engine,
        (record, place): (Table, Place),
        changes: Vec<ObjectChange>,
    ) -> Result<(), (Made, CatalogError)> {
        let _ = self.engine.set(engine.clone());
        let made = Made { record, place, at: self.mark().changes };
        match self.add(engine.catalog(), changes).await {
            Ok(()) => {
                self.block().made.push(made);
                Ok(())
            }
            Err(error) => Err((made, error)),
        }
    }

    /// Keeps a job for COMMIT. Returns whether there is one already that excludes it.
    pub(crate) fn defer(&self, job: NewJob) -> bool {
        let mut block = self.block();
        let excluded = block.jobs.iter().any(|other| other.exclusive_key == job.exclusive_key);
        if !excluded {
            block.jobs.push(job);
        }
        excluded
    }

    /// Returns how far the open block has come.
    pub(crate) fn mark(&self) -> Mark {
        let block = self.block();
        Mark { changes: block.changes.len(), jobs: block.jobs.len() }
    }

    /// Takes away what the open block has done since a mark, and returns the tables that it had
    /// made since.
    pub(crate) fn truncate(&self, mark: Mark) -> Vec<Made> {
        self.block().truncate(mark)
    }

    /// Returns the relations of the store that the block has dropped.
    pub(crate) fn dropped(&self) -> Vec<Table> {
        self.block().dropped()
    }

    /// Ends the block and returns what it has changed.
    pub(crate) fn take(&self) -> Block {
        std::mem::take(&mut *self.block())
    }

    fn block(&self) -> MutexGuard<'_, Block> {
        self.block.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Block {
    /// Returns the relations of the store that it has dropped.
    pub(crate) fn dropped(&self) -> Vec<Table> {
        let gone = self.before.values().filter(|table| self.after.get(&table.id) == Some(&None));
        gone.cloned().collect()
    }

    /// Returns whether a relation that it has changed is there at its end.
    pub(crate) fn is_there(&self, table: TableId) -> bool {
        self.after.get(&table).is_some_and(Option::is_some)
    }

    /// Returns what is needed of the store, under the name that it knows; nothing for what the block has made.
    fn stored(&self, need: Requirement) -> Option<Requirement> {
        if let Object::Namespace { database, path } = &need.object
            && self.schemas.get(&(database.clone(), path.clone())) == Some(&true)
        {
            return None;
        }
        let now = |table: &&Table| object_of(table) == need.object;
        match self.after.values().flatten().find(now).map(|table| self.before.get(&table.id)) {
            None => Some(need),
            Some(None) => None,
            Some(Some(before)) => Some(Requirement::new(need.privilege, object_of(before))),
        }
    }

    /// Returns what a name stands for, if the block has a say in it.
    fn find(&self, name: &TableName) -> Option<Option<Table>> {
        if let Some(table) = self.after.values().flatten().find(|table| table.name == *name) {
            return Some(Some(table.clone()));
        }
        self.before.values().any(|table| table.name == *name).then_some(None)
    }

    fn begin_with(&mut self, stored: Table) {
        self.after.insert(stored.id, Some(stored.clone()));
        self.before.insert(stored.id, stored);
    }

    fn note(&mut self, change: ObjectChange) {
        self.follow(&change);
        self.changes.push(change);
    }

    fn follow(&mut self, change: &ObjectChange) {
        let relation = change.relation().and_then(|id| self.after.get_mut(&id));
        match change {
            ObjectChange::CreateTable(table) => {
                self.after.insert(table.id, Some(table.clone()));
            }
            ObjectChange::CreateNamespace(made) => {
                self.schemas.insert((made.database.clone(), made.path.clone()), true);
            }
            ObjectChange::DropNamespace { database, path } => {
                self.schemas.insert((database.clone(), path.clone()), false);
            }
            ObjectChange::DropTable { .. } => {
                if let Some(relation) = relation {
                    *relation = None;
                }
            }
            ObjectChange::RenameTable { to, .. } => {
                if let Some(Some(table)) = relation {
                    table.name = to.clone();
                }
            }
            ObjectChange::AlterTable { change, .. } => {
                if let Some(Some(table)) = relation {
                    let change = change.clone();
                    table.comment = change.comment.unwrap_or(table.comment.take());
                    table.definition = change.definition.or(table.definition.take());
                    table.owner = change.owner.unwrap_or(std::mem::take(&mut table.owner));
                }
            }
            _ => {}
        }
    }

    /// Changes grants as the store does when it makes the changes; those that are given on what the block has not made
    /// are left out. `made` begins with the schemas that it has.
    fn change(&self, grants: &mut Grants, mut made: HashSet<Object>) {
        let mut names: HashMap<TableId, Table> = self.before.clone();
        for change in &self.changes {
            match change {
                ObjectChange::CreateTable(table) => {
                    made.insert(object_of(table));
                    names.insert(table.id, table.clone());
                }
                ObjectChange::RenameTable { id, to } => {
                    if let Some(table) = names.get_mut(id) {
                        let from = object_of(table);
                        table.name = to.clone();
                        grants.rename_object(&from, &object_of(table));
                        if made.remove(&from) {
                            made.insert(object_of(table));
                        }
                    }
                }
                ObjectChange::DropTable { id } => {
                    if let Some(table) = names.get(id) {
                        made.remove(&object_of(table));
                        grants.remove_object(&object_of(table));
                    }
                }
                ObjectChange::DropNamespace { database, path } => {
                    let (database, path) = (database.clone(), path.clone());
                    grants.remove_object(&Object::Namespace { database, path });
                }
                ObjectChange::Grant(grant) if made.contains(&grant.object) => {
                    grants.insert(grant.clone());
                }
                ObjectChange::Revoke(grant) if made.contains(&grant.object) => {
                    grants.remove(grant);
                }
                _ => {}
            }
        }
    }

    fn truncate(&mut self, mark: Mark) -> Vec<Made> {
        self.changes.truncate(mark.changes);
        self.jobs.truncate(mark.jobs);
        self.before.retain(|id, _| self.changes.iter().any(|change| change.relation() == Some(*id)));
        self.after = self.before.iter().map(|(id, table)| (*id, Some(table.clone()))).collect();
        self.schemas.clear();
        for change in std::mem::take(&mut self.changes) {
            self.note(change);
        }
        let (gone, kept) = std::mem::take(&mut self.made).into_iter().partition(|made| made.at >= mark.changes);
        self.made = kept;
        gone
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        let made = self.take().made;
        let Some(engine) = self.engine.get().filter(|_| !made.is_empty()) else { return };
        let engine = engine.clone();
        // Nobody waits for it; what is not deleted now is at the next start.
        engine.query_runtime().spawn(async move { engine.forget_made(made).await });
    }
}

#[cfg(test)]
mod tests;
