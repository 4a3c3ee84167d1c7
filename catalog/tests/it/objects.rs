//! Names.

use lancegate_auth::Grant;
use lancegate_catalog::{CatalogError, EntityKind, Namespace, ObjectChange, Properties, TableChange, TableId};

use crate::support::{Store, at, database, name, table};

fn path(components: &[&str]) -> Vec<String> {
    components.iter().map(|component| (*component).to_owned()).collect()
}

fn namespace(components: &[&str]) -> Namespace {
    Namespace {
        database: "db".to_owned(),
        path: path(components),
        properties: Properties::from([("purpose".to_owned(), "test".to_owned())]),
        created_at: at(0),
    }
}

async fn with_database() -> Store {
    let store = Store::new().await;
    store.catalog.create_database(database("db")).await.unwrap();
    store
}

fn not_found(kind: EntityKind) -> impl Fn(CatalogError) {
    move |error| {
        assert!(matches!(&error, CatalogError::NotFound { kind: k, .. } if *k == kind), "{error}");
    }
}

fn exists(error: CatalogError) {
    assert!(matches!(&error, CatalogError::AlreadyExists { .. }), "{error}");
}

#[tokio::test]
async fn names_are_unique_and_need_their_container() {
    let store = with_database().await;
    let catalog = &store.catalog;
    exists(catalog.create_database(database("db")).await.unwrap_err());
    catalog.create_table(table("docs")).await.unwrap();
    exists(catalog.create_table(table("docs")).await.unwrap_err());
    let mut elsewhere = table("docs");
    elsewhere.name.database = "nowhere".to_owned();
    not_found(EntityKind::Database)(catalog.create_table(elsewhere).await.unwrap_err());
    let mut nested = table("docs");
    nested.name.namespace = path(&["team"]);
    not_found(EntityKind::Namespace)(catalog.create_table(nested.clone()).await.unwrap_err());

    catalog.create_namespace(namespace(&["team"])).await.unwrap();
    catalog.create_table(nested.clone()).await.unwrap();
    assert_eq!(catalog.table(&nested.name).await.unwrap(), Some(nested.clone()));
    assert_eq!(catalog.table_by_id(nested.id).await.unwrap(), Some(nested.clone()));
    assert_eq!(catalog.tables("db", Some(&path(&["team"]))).await.unwrap(), [nested]);
    assert_eq!(catalog.tables("db", None).await.unwrap().len(), 2);
    assert_eq!(catalog.table(&name(&[], "none")).await.unwrap(), None);
    not_found(EntityKind::Table)(catalog.drop_table(TableId::new(at(0))).await.unwrap_err());
}

#[tokio::test]
async fn namespaces_bring_their_ancestors_and_are_dropped_empty() {
    let store = with_database().await;
    let catalog = &store.catalog;
    catalog.create_namespace(namespace(&["a", "b"])).await.unwrap();
    exists(catalog.create_namespace(namespace(&["a"])).await.unwrap_err());
    let listed = catalog.namespaces("db").await.unwrap();
    assert_eq!(listed.iter().map(|n| n.path.clone()).collect::<Vec<_>>(), [path(&["a"]), path(&["a", "b"])]);
    assert_eq!(listed[0].properties, Properties::new());
    assert_eq!(listed[1], namespace(&["a", "b"]));
    for (wrong, case) in [(vec![], "root"), (path(&["public"]), "public"), (path(&["a$b"]), "$")] {
        let error = catalog.create_namespace(Namespace { path: wrong, ..namespace(&[]) }).await;
        let error = error.unwrap_err();
        assert!(matches!(error, CatalogError::InvalidName { .. }), "{case}: {error}");
    }

    let error = catalog.drop_namespace("db", &path(&["a"])).await.unwrap_err();
    assert!(matches!(error, CatalogError::NotEmpty { .. }), "{error}");
    let error = catalog.drop_database("db").await.unwrap_err();
    assert!(matches!(error, CatalogError::NotEmpty { .. }), "{error}");
    catalog.create_namespace(namespace(&["a%"])).await.unwrap();
    catalog.drop_namespace("db", &path(&["a%"])).await.unwrap();
    catalog.drop_namespace("db", &path(&["a", "b"])).await.unwrap();
    catalog.drop_namespace("db", &path(&["a"])).await.unwrap();
    catalog.drop_database("db").await.unwrap();
    assert_eq!(catalog.databases().await.unwrap(), []);
}

#[tokio::test]
async fn tables_swap_names_in_one_step_or_not_at_all() {
    let store = with_database().await;
    let (old, new) = (table("docs"), table("docs__tmp"));
    let rename = |id, to: &str| ObjectChange::RenameTable { id, to: name(&[], to) };
    let create = |table| ObjectChange::CreateTable(table);
    store.catalog.apply(vec![create(old.clone()), create(new.clone())]).await.unwrap();

    let dance =
        |last| vec![rename(old.id, "docs__backup"), rename(new.id, "docs"), ObjectChange::DropTable { id: last }];
    let error = store.catalog.apply(dance(TableId::new(at(0)))).await.unwrap_err();
    not_found(EntityKind::Table)(error);
    let standing = async || store.catalog.table(&name(&[], "docs")).await.unwrap().unwrap().id;
    assert_eq!(standing().await, old.id);
    store.catalog.apply(dance(old.id)).await.unwrap();
    assert_eq!(standing().await, new.id);
    assert_eq!(store.catalog.tables("db", None).await.unwrap().len(), 1);
}

#[tokio::test]
async fn what_is_recorded_about_a_table_changes_field_by_field() {
    let store = with_database().await;
    let docs = table("docs");
    store.catalog.create_table(docs.clone()).await.unwrap();
    let alter = async |change| {
        let alter = ObjectChange::AlterTable { id: docs.id, change };
        store.catalog.apply(vec![alter]).await.unwrap();
        store.catalog.table_by_id(docs.id).await.unwrap().unwrap()
    };
    let comment = |text: Option<&str>| TableChange { comment: Some(text.map(str::to_owned)), ..TableChange::default() };
    let commented = alter(comment(Some("all of them"))).await;
    assert_eq!(commented.comment.as_deref(), Some("all of them"));
    assert_eq!(alter(TableChange::default()).await, commented);
    assert_eq!(alter(comment(None)).await, docs);
}

#[tokio::test]
async fn a_found_table_is_adopted_once() {
    let store = with_database().await;
    let found = table("docs");
    let ann: lancegate_auth::Subject = "P:ann".parse().unwrap();
    let (adopted, new) = store.catalog.adopt_table(found.clone(), Some(ann.clone())).await.unwrap();
    assert_eq!((&adopted, new), (&found, true));
    let (adopted, new) = store.catalog.adopt_table(table("docs"), None).await.unwrap();
    assert_eq!((&adopted, new), (&found, false));
    let grants = store.catalog.grants().await.unwrap();
    assert_eq!(grants.owner_of(&found.object()), Some(&ann), "never a table without its owner");
}

#[tokio::test]
async fn grants_follow_a_renamed_table_and_end_with_a_dropped_one() {
    let store = with_database().await;
    let docs = table("docs");
    let select = |table: &str| Grant {
        subject: "P:bob".parse().unwrap(),
        privilege: lancegate_auth::Privilege::Select,
        object: format!("table:db:public${table}").parse().unwrap(),
    };
    let create = ObjectChange::CreateTable(docs.clone());
    store.catalog.apply(vec![create, ObjectChange::Grant(select("docs"))]).await.unwrap();
    assert!(store.catalog.grants().await.unwrap().contains(&select("docs")));

    store.catalog.rename_table(docs.id, name(&[], "papers")).await.unwrap();
    let grants = store.catalog.grants().await.unwrap();
    assert!(grants.contains(&select("papers")) && !grants.contains(&select("docs")));

    store.catalog.drop_table(docs.id).await.unwrap();
    store.catalog.create_table(table("papers")).await.unwrap();
    assert!(!store.catalog.grants().await.unwrap().contains(&select("papers")));
}
