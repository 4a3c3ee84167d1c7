//! Secrets: names, sealed values, and what comes and goes with them.

use lancegate_auth::{Grant, Privilege};
use lancegate_catalog::{
    CatalogError, EntityKind, Namespace, ObjectChange, Properties, Sealed, SecretName, SecretRecord,
};

use crate::support::{Store, at, database, table};

fn named(namespace: &[&str], name: &str) -> SecretName {
    SecretName {
        database: "db".to_owned(),
        namespace: namespace.iter().map(|part| (*part).to_owned()).collect(),
        name: name.to_owned(),
    }
}

fn secret(name: SecretName) -> SecretRecord {
    let sealed = Sealed { key_id: "k1".to_owned(), text: "sealed once".to_owned() };
    SecretRecord { name, version: 1, sealed, created_at: at(0), updated_at: at(0) }
}

fn create(name: &SecretName) -> ObjectChange {
    ObjectChange::CreateSecret(secret(name.clone()))
}

fn usage(name: &SecretName) -> Grant {
    Grant { subject: "P:bob".parse().unwrap(), privilege: Privilege::Usage, object: name.object() }
}

async fn with_namespace() -> Store {
    let store = Store::new().await;
    let namespace = Namespace {
        database: "db".to_owned(),
        path: vec!["team".to_owned()],
        properties: Properties::new(),
        created_at: at(0),
    };
    store.catalog.create_database(database("db")).await.unwrap();
    store.catalog.create_namespace(namespace).await.unwrap();
    store
}

#[tokio::test]
async fn a_secret_is_kept_under_a_name_of_its_own() {
    let mut store = with_namespace().await;
    let (root, team) = (named(&[], "token"), named(&["team"], "token"));
    store.catalog.create_table(table("token")).await.unwrap();
    store.catalog.apply(vec![create(&root), create(&team)]).await.unwrap();
    store.reopen().await;
    assert_eq!(store.catalog.secret(&team).await.unwrap(), Some(secret(team.clone())));
    assert_eq!(store.catalog.secret(&named(&[], "none")).await.unwrap(), None);
    let listed = [secret(root.clone()), secret(team)];
    assert_eq!(store.catalog.secrets(Some("db")).await.unwrap(), listed);
    assert_eq!(store.catalog.secrets(None).await.unwrap(), listed);
    assert_eq!(store.catalog.secrets(Some("other")).await.unwrap(), []);

    let taken = store.catalog.apply(vec![create(&root)]).await.unwrap_err();
    assert!(matches!(&taken, CatalogError::AlreadyExists { kind: EntityKind::Secret, .. }), "{taken}");
    let nowhere = store.catalog.apply(vec![create(&named(&["none"], "token"))]).await.unwrap_err();
    assert!(matches!(&nowhere, CatalogError::NotFound { kind: EntityKind::Namespace, .. }), "{nowhere}");
    let elsewhere = SecretName { database: "none".to_owned(), ..root };
    let nowhere = store.catalog.apply(vec![create(&elsewhere)]).await.unwrap_err();
    assert!(matches!(&nowhere, CatalogError::NotFound { kind: EntityKind::Database, .. }), "{nowhere}");
}

#[tokio::test]
async fn a_value_is_exchanged_only_for_the_one_that_was_read() {
    let store = with_namespace().await;
    let name = named(&[], "token");
    store.catalog.apply(vec![create(&name)]).await.unwrap();
    let before = store.catalog.secret(&name).await.unwrap().unwrap();
    let sealed = Sealed { key_id: "k2".to_owned(), text: "sealed twice".to_owned() };
    let after = SecretRecord { version: 2, sealed, updated_at: at(5), ..before.clone() };
    assert!(store.catalog.exchange_secret(before.clone(), after.clone()).await.unwrap());
    assert_eq!(store.catalog.secret(&name).await.unwrap(), Some(after.clone()));
    assert!(!store.catalog.exchange_secret(before.clone(), after.clone()).await.unwrap());

    // A secret of the same name and version that was made since is another one.
    store.catalog.apply(vec![ObjectChange::DropSecret(name.clone())]).await.unwrap();
    let sealed = Sealed { key_id: "k1".to_owned(), text: "sealed thrice".to_owned() };
    let again = SecretRecord { sealed, ..secret(name.clone()) };
    store.catalog.apply(vec![ObjectChange::CreateSecret(again.clone())]).await.unwrap();
    assert!(!store.catalog.exchange_secret(before, after).await.unwrap());
    assert_eq!(store.catalog.secret(&name).await.unwrap(), Some(again));
}

#[tokio::test]
async fn grants_end_with_the_secret_and_none_wait_for_the_next_one() {
    let store = with_namespace().await;
    let name = named(&[], "token");
    let grants = async || store.catalog.grants().await.unwrap().contains(&usage(&name));
    store.catalog.apply(vec![create(&name), ObjectChange::Grant(usage(&name))]).await.unwrap();
    assert!(grants().await);
    store.catalog.apply(vec![ObjectChange::DropSecret(name.clone())]).await.unwrap();
    assert!(!grants().await);
    store.catalog.grant(usage(&name)).await.unwrap();
    store.catalog.apply(vec![create(&name)]).await.unwrap();
    assert!(!grants().await);
    let gone = store.catalog.apply(vec![ObjectChange::DropSecret(named(&[], "none"))]).await.unwrap_err();
    assert!(matches!(&gone, CatalogError::NotFound { kind: EntityKind::Secret, .. }), "{gone}");
}

#[tokio::test]
async fn what_holds_a_secret_is_not_empty() {
    let store = with_namespace().await;
    let name = named(&["team"], "token");
    store.catalog.apply(vec![create(&name)]).await.unwrap();
    let team = ["team".to_owned()];
    let error = store.catalog.drop_namespace("db", &team).await.unwrap_err();
    assert!(matches!(error, CatalogError::NotEmpty { kind: EntityKind::Namespace, .. }), "{error}");
    store.catalog.apply(vec![ObjectChange::DropSecret(name)]).await.unwrap();
    store.catalog.drop_namespace("db", &team).await.unwrap();
    let root = named(&[], "token");
    store.catalog.apply(vec![create(&root)]).await.unwrap();
    let error = store.catalog.drop_database("db").await.unwrap_err();
    assert!(matches!(error, CatalogError::NotEmpty { kind: EntityKind::Database, .. }), "{error}");
}

#[test]
fn a_sealed_value_does_not_print() {
    let printed = format!("{:?}", secret(named(&[], "token")));
    assert!(printed.contains("k1") && !printed.contains("sealed once"), "{printed}");
}
