//! What the tests share.

use std::path::PathBuf;
use std::time::Duration;

use chrono::{DateTime, TimeDelta};
use lancegate_catalog::{
    AttemptEpoch, Catalog, Database, GatewayId, Job, JobKind, JobState, NewJob, Table, TableId, TableKind, TableName,
    Timestamp,
};
use tempfile::TempDir;

pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// A store in a folder of its own.
pub(crate) struct Store {
    pub(crate) folder: TempDir,
    pub(crate) catalog: Catalog,
}

impl Store {
    pub(crate) async fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let catalog = Catalog::open_sqlite(&folder.path().join("catalog.db")).await.unwrap();
        Store { folder, catalog }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("catalog.db")
    }

    /// Closes the store and opens it again.
    pub(crate) async fn reopen(&mut self) {
        self.catalog.close().await;
        self.catalog = Catalog::open_sqlite(&self.path()).await.unwrap();
    }

    /// Submits a job and claims it.
    pub(crate) async fn running(&self, job: NewJob) -> Job {
        let id = self.catalog.submit(job, at(0)).await.unwrap().id;
        self.catalog.claim(id, &gateway(), LEASE, at(0)).await.unwrap()
    }

    pub(crate) async fn job(&self, job: &Job) -> Job {
        self.catalog.job(job.id).await.unwrap().unwrap()
    }

    pub(crate) async fn state(&self, job: &Job) -> JobState {
        self.job(job).await.status.state
    }

    /// The messages of the events of a job, oldest first.
    pub(crate) async fn history(&self, job: &Job) -> Vec<String> {
        let mut events = self.catalog.events(job.id, 1_000).await.unwrap();
        events.reverse();
        events.into_iter().map(|event| format!("{}: {}", event.state, event.message)).collect()
    }
}

/// Seconds after the beginning of a test.
pub(crate) fn at(secs: i64) -> Timestamp {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap() + TimeDelta::seconds(secs)
}

pub(crate) fn gateway() -> GatewayId {
    GatewayId::from("gw_1".to_owned())
}

pub(crate) fn refresh(table: &str) -> NewJob {
    NewJob::new(JobKind::ComputedRefresh, "db", table, "alice")
}

pub(crate) fn earlier(epoch: AttemptEpoch) -> AttemptEpoch {
    AttemptEpoch(epoch.0 - 1)
}

pub(crate) fn database(name: &str) -> Database {
    Database { name: name.to_owned(), location: format!("/data/{name}"), created_at: at(0) }
}

pub(crate) fn name(namespace: &[&str], name: &str) -> TableName {
    TableName {
        database: "db".to_owned(),
        namespace: namespace.iter().map(|part| (*part).to_owned()).collect(),
        name: name.to_owned(),
    }
}

pub(crate) fn table(table: &str) -> Table {
    Table {
        id: TableId::new(at(0)),
        kind: TableKind::Table,
        name: name(&[], table),
        location: format!("/data/db/{table}.lance"),
        definition: None,
        comment: None,
        owner: "alice".to_owned(),
        created_at: at(0),
    }
}
