//! Users, roles and grants.

use lancegate_auth::{Grant, Privilege, RoleName, UserName};
use lancegate_catalog::{CatalogError, EntityKind, NewUser, UserChange};

use crate::support::{Store, at};

fn user(name: &str) -> UserName {
    UserName::parse(name).unwrap()
}

fn role(name: &str) -> RoleName {
    RoleName::parse(name).unwrap()
}

fn grant(subject: &str, privilege: Privilege) -> Grant {
    Grant { subject: subject.parse().unwrap(), privilege, object: "table:db:public$docs".parse().unwrap() }
}

#[tokio::test]
async fn grants_are_a_set_and_an_object_has_one_owner() {
    let mut store = Store::new().await;
    let select = grant("P:bob", Privilege::Select);
    assert!(store.catalog.grant(select.clone()).await.unwrap());
    assert!(!store.catalog.grant(select.clone()).await.unwrap());
    store.catalog.grant(grant("P:alice", Privilege::Ownership)).await.unwrap();
    store.catalog.grant(grant("r:team", Privilege::Ownership)).await.unwrap();

    let expected = [grant("r:team", Privilege::Ownership), select.clone()];
    assert_eq!(store.catalog.grants_of(&select.object).await.unwrap(), expected);
    store.reopen().await;
    assert_eq!(store.catalog.grants().await.unwrap().iter().collect::<Vec<_>>(), expected);

    store.catalog.revoke(select.clone()).await.unwrap();
    let error = store.catalog.revoke(select).await.unwrap_err();
    assert!(matches!(error, CatalogError::NotFound { kind: EntityKind::Grant, .. }), "{error}");
    let error = store.catalog.revoke(grant("r:team", Privilege::Ownership)).await.unwrap_err();
    assert!(matches!(error, CatalogError::OwnershipRevoked { .. }), "{error}");
    let error = store.catalog.grant(grant("P:bob", Privilege::Operate)).await.unwrap_err();
    assert!(matches!(error, CatalogError::InvalidGrant { .. }), "{error}");
}

#[tokio::test]
async fn an_acknowledged_grant_is_seen_by_the_next_read() {
    let store = Store::new().await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..20 {
        let catalog = store.catalog.clone();
        tasks.spawn(async move {
            let select = grant(&format!("P:user{number}"), Privilege::Select);
            catalog.grant(select.clone()).await.unwrap();
            assert!(catalog.grants().await.unwrap().contains(&select));
            catalog.revoke(select.clone()).await.unwrap();
            assert!(!catalog.grants().await.unwrap().contains(&select));
        });
    }
    tasks.join_all().await;
}

#[tokio::test]
async fn roles_are_bound_and_unbound() {
    let store = Store::new().await;
    assert!(store.catalog.bind_role(&role("analyst"), &user("bob")).await.unwrap());
    assert!(!store.catalog.bind_role(&role("analyst"), &user("bob")).await.unwrap());
    store.catalog.bind_role(&role("admin"), &user("bob")).await.unwrap();
    let roles = store.catalog.roles_of(&user("bob")).await.unwrap();
    assert_eq!(roles.into_iter().collect::<Vec<_>>(), [role("admin"), role("analyst")]);
    store.catalog.unbind_role(&role("admin"), &user("bob")).await.unwrap();
    assert_eq!(store.catalog.role_bindings().await.unwrap(), [(user("bob"), role("analyst"))]);
    assert!(store.catalog.unbind_role(&role("admin"), &user("bob")).await.is_err());
}

#[tokio::test]
async fn users_come_change_and_go_with_their_rights() {
    let store = Store::new().await;
    let catalog = &store.catalog;
    let mut bob = NewUser::new(user("bob"));
    bob.verifier = Some("SCRAM-SHA-256$4096:c2FsdA==$a:b".to_owned());
    catalog.create_user(bob.clone(), at(0)).await.unwrap();
    let error = catalog.create_user(bob.clone(), at(0)).await.unwrap_err();
    assert!(matches!(error, CatalogError::AlreadyExists { .. }), "{error}");
    assert!(!format!("{bob:?}").contains("SCRAM"));

    let change = UserChange { valid_until: Some(Some(at(9))), ..UserChange::default() };
    catalog.alter_user(&user("bob"), change).await.unwrap();
    let stored = catalog.user(&user("bob")).await.unwrap().unwrap();
    assert_eq!((stored.verifier, stored.valid_until), (bob.verifier, Some(at(9))));
    assert_eq!((stored.connection_limit, stored.created_at), (None, at(0)));
    let cleared = UserChange { verifier: Some(None), ..UserChange::default() };
    catalog.alter_user(&user("bob"), cleared).await.unwrap();
    assert_eq!(catalog.user(&user("bob")).await.unwrap().unwrap().verifier, None);

    catalog.grant(grant("P:bob", Privilege::Ownership)).await.unwrap();
    catalog.grant(grant("P:bob", Privilege::Select)).await.unwrap();
    catalog.bind_role(&role("analyst"), &user("bob")).await.unwrap();
    let error = catalog.drop_user(&user("bob")).await.unwrap_err();
    assert!(matches!(error, CatalogError::UserOwnsObject { .. }), "{error}");
    catalog.grant(grant("P:alice", Privilege::Ownership)).await.unwrap();
    catalog.drop_user(&user("bob")).await.unwrap();
    assert_eq!(catalog.users().await.unwrap(), []);
    let left: Vec<_> = catalog.grants().await.unwrap().iter().collect();
    assert_eq!(left, [grant("P:alice", Privilege::Ownership)]);
    assert!(catalog.roles_of(&user("bob")).await.unwrap().is_empty());
    assert!(catalog.alter_user(&user("bob"), UserChange::default()).await.is_err());
}
