use chrono::DateTime;
use lancegate_auth::{Grant, Object, Privilege, Subject, UserName};
use lancegate_catalog::{Database, TableChange, TableKind};
use tempfile::TempDir;

use super::*;

/// A metadata store with the tables `a` and `b`, of which somebody may read `a`.
struct World {
    names: Names,
    catalog: Catalog,
    _folder: TempDir,
}

impl World {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open_sqlite(&folder.path().join("catalog.db")).await.unwrap();
        let created_at = DateTime::UNIX_EPOCH;
        let database = Database { name: "db".to_owned(), location: String::new(), created_at };
        catalog.create_database(database).await.unwrap();
        for name in ["a", "b"] {
            catalog.create_table(table(name)).await.unwrap();
        }
        catalog.apply(vec![ObjectChange::Grant(reads("a"))]).await.unwrap();
        Self { names: Names::default(), catalog, _folder: folder }
    }

    async fn change(&self, change: ObjectChange) {
        self.names.add(&self.catalog, vec![change]).await.unwrap();
    }

    async fn refused(&self, change: ObjectChange) -> CatalogError {
        self.names.add(&self.catalog, vec![change]).await.unwrap_err()
    }

    async fn id(&self, named: &str) -> TableId {
        self.names.table(&self.catalog, &name(named)).await.unwrap().unwrap().id
    }

    async fn shown(&self) -> Vec<String> {
        let tables = self.names.tables(&self.catalog, "db", None).await.unwrap();
        let listed: Vec<String> = tables.iter().map(|table| table.name.name.clone()).collect();
        for table in &tables {
            let found = self.names.table(&self.catalog, &table.name).await.unwrap();
            assert_eq!(found.as_ref(), Some(table), "what is listed is found");
        }
        listed
    }

    async fn reads(&self, named: &str) -> bool {
        self.names.grants(&self.catalog).await.unwrap().contains(&reads(named))
    }
}

fn name(name: &str) -> TableName {
    TableName { database: "db".to_owned(), namespace: Vec::new(), name: name.to_owned() }
}

fn table(named: &str) -> Table {
    Table {
        id: TableId::new(DateTime::UNIX_EPOCH),
        kind: TableKind::Table,
        name: name(named),
        location: format!("{named}.lance"),
        definition: None,
        comment: None,
        owner: "alice".to_owned(),
        created_at: DateTime::UNIX_EPOCH,
    }
}

fn reads(named: &str) -> Grant {
    let subject = Subject::User(UserName::parse("bob").unwrap());
    let object = Object::Table { database: "db".to_owned(), namespace: Vec::new(), name: named.to_owned() };
    Grant { subject, privilege: Privilege::Select, object }
}

#[tokio::test]
async fn a_renaming_dance_is_seen_by_the_block_and_in_the_store_only_when_it_is_applied() {
    let world = World::new().await;
    let new = table("new");
    world.change(ObjectChange::CreateTable(new.clone())).await;
    let a = world.id("a").await;
    world.change(ObjectChange::RenameTable { id: a, to: name("old") }).await;
    assert!(world.names.hides(&name("a")));
    assert!(world.reads("old").await && !world.reads("a").await, "grants go with the table");
    world.change(ObjectChange::RenameTable { id: new.id, to: name("a") }).await;
    world.change(ObjectChange::DropTable { id: a }).await;
    assert_eq!(world.shown().await, ["a", "b"]);
    assert_eq!(world.id("a").await, new.id);
    assert!(!world.reads("a").await && !world.reads("old").await);
    assert_eq!(world.catalog.table(&name("a")).await.unwrap().unwrap().id, a, "nobody else sees it");
    let block = world.names.take();
    assert_eq!(block.dropped().iter().map(|table| table.id).collect::<Vec<_>>(), [a]);
    world.catalog.apply(block.changes).await.unwrap();
    assert_eq!(world.catalog.table(&name("a")).await.unwrap().unwrap().id, new.id);
    assert_eq!(world.shown().await, ["a", "b"]);
    assert!(!world.reads("a").await);
}

#[tokio::test]
async fn a_savepoint_takes_back_what_came_after_it() {
    let world = World::new().await;
    world.change(ObjectChange::CreateTable(table("first"))).await;
    let mark = world.names.mark();
    let b = world.id("b").await;
    world.change(ObjectChange::RenameTable { id: b, to: name("c") }).await;
    let comment = TableChange { comment: Some(Some("hers".to_owned())), ..TableChange::default() };
    world.change(ObjectChange::AlterTable { id: b, change: comment }).await;
    let renamed = world.names.table(&world.catalog, &name("c")).await.unwrap().unwrap();
    assert_eq!(renamed.comment.as_deref(), Some("hers"));
    world.change(ObjectChange::CreateTable(table("b"))).await;
    assert_eq!(world.shown().await, ["a", "b", "c", "first"]);
    world.names.truncate(mark);
    assert_eq!(world.shown().await, ["a", "b", "first"]);
    assert_eq!(world.id("b").await, b);
    assert!(world.names.take().dropped().is_empty());
    assert_eq!(world.shown().await, ["a", "b"]);
}

#[tokio::test]
async fn what_cannot_be_is_refused_before_commit_and_leaves_nothing() {
    let world = World::new().await;
    let taken = world.refused(ObjectChange::CreateTable(table("a"))).await;
    assert!(matches!(taken, CatalogError::AlreadyExists { .. }), "{taken}");
    let (a, b) = (world.id("a").await, world.id("b").await);
    let taken = world.refused(ObjectChange::RenameTable { id: a, to: name("b") }).await;
    assert!(matches!(taken, CatalogError::AlreadyExists { .. }), "{taken}");
    let gone = world.refused(ObjectChange::DropTable { id: TableId::new(DateTime::UNIX_EPOCH) }).await;
    assert!(matches!(gone, CatalogError::NotFound { .. }), "{gone}");
    let both = vec![ObjectChange::DropTable { id: b }, ObjectChange::CreateTable(table("a"))];
    world.names.add(&world.catalog, both).await.unwrap_err();
    assert_eq!(world.shown().await, ["a", "b"], "all of a statement, or nothing");
    world.change(ObjectChange::DropTable { id: b }).await;
    world.change(ObjectChange::RenameTable { id: a, to: name("b") }).await;
    assert_eq!(world.shown().await, ["b"]);
}
