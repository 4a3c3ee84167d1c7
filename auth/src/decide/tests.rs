//! Cases and properties of the decision.

use proptest::prelude::*;

use super::*;
use crate::grants::Grant;
use crate::principal::{RoleName, Subject, UserName};

/// Reads `P:ann SELECT table:db:public$t`.
fn grant(text: &str) -> Grant {
    let words: Vec<&str> = text.split(' ').collect();
    Grant {
        subject: words[0].parse().unwrap(),
        privilege: Privilege::from_acl(words[1]).unwrap(),
        object: words[2].parse().unwrap(),
    }
}

/// Reads `SELECT table:db:public$t`.
fn requirement(text: &str) -> Requirement {
    let (privilege, object) = text.split_once(' ').unwrap();
    Requirement::new(Privilege::from_acl(privilege).unwrap(), object.parse().unwrap())
}

fn ann() -> Principal {
    let mut ann = Principal::user(UserName::parse("ann").unwrap());
    ann.roles.insert(RoleName::parse("ops").unwrap());
    ann.groups.insert("eng".to_owned());
    ann
}

/// Checks what ann lacks for `needed`; an empty text means nothing.
fn check(grants: &[&str], needed: &str, missing: &str) {
    let set: Grants = grants.iter().map(|text| grant(text)).collect();
    let answer = match decide(&ann(), &set, &requirement(needed)) {
        Decision::Allowed => String::new(),
        Decision::Denied(Missing { privilege, object }) => {
            format!("{} {object}", privilege.as_acl())
        }
    };
    assert_eq!(answer, missing, "{needed} with {grants:?}");
}

const SELECT: &str = "SELECT table:db:a$t";

#[test]
fn rows_need_the_privilege_and_the_way_to_the_table() {
    let on_db = "P:ann USAGE database:db";
    let on_ns = "P:ann USAGE namespace:db:a";
    let on_t = "P:ann SELECT table:db:a$t";
    check(&[on_db, on_ns, on_t], SELECT, "");
    check(&[on_ns, on_t], SELECT, "USAGE database:db");
    check(&[on_db, on_t], SELECT, "USAGE namespace:db:a");
    check(&[on_db, on_ns], SELECT, "SELECT table:db:a$t");
    check(&[on_db, on_ns, on_t], "INSERT table:db:a$t", "INSERT table:db:a$t");
    check(&[on_db, on_ns, on_t], "SELECT table:db:a$u", "SELECT table:db:a$u");
    check(&[on_db, on_ns, on_t], "SELECT view:db:a$t", "SELECT view:db:a$t");
}

#[test]
fn each_grant_may_come_through_the_user_a_role_or_a_group() {
    check(&["P:ann USAGE database:db", "r:ops USAGE namespace:db:a", "G:eng SELECT table:db:a$t"], SELECT, "");
    check(
        &["P:ops USAGE database:db", "r:eng USAGE database:db", "G:ann USAGE database:db"],
        SELECT,
        "USAGE database:db",
    );
}

#[test]
fn a_nested_namespace_is_reached_without_its_ancestors() {
    check(&["P:ann USAGE database:db", "P:ann USAGE namespace:db:a$b"], "USAGE namespace:db:a$b", "");
    check(
        &["P:ann USAGE database:db", "P:ann USAGE namespace:db:a"],
        "USAGE namespace:db:a$b",
        "USAGE namespace:db:a$b",
    );
}

#[test]
fn ownership_implies_every_privilege_valid_on_the_object_and_no_other() {
    let way = ["P:ann USAGE database:db", "P:ann USAGE namespace:db:a"];
    for object in ["table:db:a$x", "view:db:a$x", "secret:db:a$x", "function:db:a$x"] {
        let owner = format!("r:ops OWNERSHIP {object}");
        for privilege in Privilege::ALL {
            let needed = format!("{} {object}", privilege.as_acl());
            let kind = requirement(&needed).object.kind();
            let missing = if privilege.valid_on(kind) { "" } else { &needed };
            check(&[way[0], way[1], &owner], &needed, missing);
        }
        let needed = format!("OWNERSHIP {object}");
        check(&[&owner], &needed, "USAGE database:db");
    }
}

#[test]
fn ownership_of_a_container_gives_nothing_inside() {
    let owner = ["P:ann OWNERSHIP database:db", "P:ann OWNERSHIP namespace:db:a"];
    check(&owner, "CREATE_NAMESPACE database:db", "");
    check(&owner, "CREATE_TABLE namespace:db:a", "");
    check(&owner, SELECT, SELECT);
    check(&owner[..1], "CREATE_TABLE namespace:db:a", "CREATE_TABLE namespace:db:a");
}

#[test]
fn usage_on_a_database_without_grants_falls_back_to_create_database() {
    let creator = "P:ann CREATE_DATABASE system";
    check(&[creator], "USAGE database:db", "");
    check(&["P:ann USAGE system"], "USAGE database:db", "USAGE database:db");
    check(&[creator, "P:bob USAGE database:db"], "USAGE database:db", "USAGE database:db");
    // Only USAGE falls back.
    check(&[creator], "CREATE_NAMESPACE database:db", "CREATE_NAMESPACE database:db");
    check(&[creator], "OWNERSHIP database:db", "OWNERSHIP database:db");
    // And the fallbacks do not chain.
    check(&[creator], "USAGE namespace:db:public", "USAGE namespace:db:public");
}

#[test]
fn usage_on_a_root_namespace_without_grants_falls_back_to_create_namespace() {
    let way = "P:ann USAGE database:db";
    let creator = "P:ann CREATE_NAMESPACE database:db";
    let root = "USAGE namespace:db:public";
    check(&[way, creator], root, "");
    check(&["P:ann OWNERSHIP database:db"], root, "");
    check(&[way], root, root);
    check(&[creator], root, "USAGE database:db");
    check(&[way, creator, "P:bob USAGE namespace:db:public"], root, root);
    check(&[way, creator], "USAGE namespace:db:a", "USAGE namespace:db:a");
    check(&[way, creator], "CREATE_TABLE namespace:db:public", "CREATE_TABLE namespace:db:public");
}

#[test]
fn nobody_owns_the_system() {
    check(&["P:ann OWNERSHIP system"], "OWNERSHIP system", "OWNERSHIP system");
    check(&["P:ann OWNERSHIP system"], "USAGE system", "USAGE system");
}

#[test]
fn a_storage_integration_is_used_without_a_database() {
    let needed = "USAGE storage_integration:lake";
    check(&["P:ann USAGE storage_integration:lake"], needed, "");
    check(&["P:ann OWNERSHIP storage_integration:lake"], needed, "");
    check(&[], needed, needed);
}

#[test]
fn a_materialized_view_takes_the_grants_of_a_table() {
    let view =
        Object::MaterializedView { database: "db".to_owned(), namespace: vec!["a".to_owned()], name: "t".to_owned() };
    let grants: Grants = ["P:ann USAGE database:db", "P:ann USAGE namespace:db:a", "P:ann SELECT table:db:a$t"]
        .into_iter()
        .map(grant)
        .collect();
    let select = Requirement::new(Privilege::Select, view.clone());
    assert!(decide(&ann(), &grants, &select).allowed());
    let update = Requirement::new(Privilege::Update, view);
    assert!(!decide(&ann(), &grants, &update).allowed());
}

#[test]
fn the_job_registry_takes_both_system_privileges() {
    let decide = |texts: &[&str]| {
        let grants: Grants = texts.iter().map(|text| grant(text)).collect();
        decide_all(&ann(), &grants, &Requirement::job_registry())
    };
    let lacks = |privilege| denied(privilege, Object::System);
    let (usage, operate) = ("P:ann USAGE system", "r:ops OPERATE system");
    assert_eq!(decide(&[usage, operate]), Decision::Allowed);
    assert_eq!(decide(&[usage]), lacks(Privilege::Operate));
    assert_eq!(decide(&[operate]), lacks(Privilege::Usage));
    assert_eq!(decide(&[]), lacks(Privilege::Usage));
}

#[test]
fn the_first_denial_is_reported_and_no_requirements_are_allowed() {
    let needed = ["USAGE system", "CREATE_DATABASE system", "OPERATE system"].map(requirement);
    let grants: Grants = [grant("P:ann USAGE system")].into_iter().collect();
    assert_eq!(decide_all(&ann(), &grants, &needed), denied(Privilege::CreateDatabase, Object::System));
    assert_eq!(decide_all(&ann(), &grants, &[]), Decision::Allowed);
}

/// A world small enough that random grants meet random requests.
fn object() -> impl Strategy<Value = Object> {
    let spellings = vec![
        "system",
        "database:x",
        "database:y",
        "namespace:x:public",
        "namespace:x:a",
        "namespace:y:public",
        "table:x:public$t",
        "table:x:a$t",
        "view:x:a$t",
        "secret:x:public$s",
        "function:x:a$f",
        "storage_integration:s",
    ];
    proptest::sample::select(spellings).prop_map(|text| text.parse().unwrap())
}

fn subject() -> impl Strategy<Value = Subject> {
    let spellings = vec!["P:ann", "P:bob", "r:ops", "r:dev", "G:eng"];
    proptest::sample::select(spellings).prop_map(|text| text.parse().unwrap())
}

fn any_grant() -> impl Strategy<Value = Grant> {
    let privilege = proptest::sample::select(Privilege::ALL.to_vec());
    (subject(), privilege, object()).prop_map(|(subject, privilege, object)| Grant { subject, privilege, object })
}

fn valid_grant() -> impl Strategy<Value = Grant> {
    any_grant().prop_filter("valid", |g| g.privilege.valid_on(g.object.kind()))
}

fn grants() -> impl Strategy<Value = Grants> {
    proptest::collection::vec(valid_grant(), 0..40).prop_map(|grants| grants.into_iter().collect())
}

fn principal() -> impl Strategy<Value = Principal> {
    let user = proptest::sample::select(vec!["ann", "bob"]);
    (user, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(user, ops, dev, eng)| {
        let mut principal = Principal::user(UserName::parse(user).unwrap());
        let roles = [(ops, "ops"), (dev, "dev")];
        let held = roles.iter().filter(|(held, _)| *held);
        principal.roles = held.map(|(_, role)| role.parse().unwrap()).collect();
        principal.groups = eng.then(|| "eng".to_owned()).into_iter().collect();
        principal
    })
}

fn every_requirement(objects: &[Object]) -> Vec<Requirement> {
    let on = |object: &Object| {
        let object = object.clone();
        Privilege::ALL.map(|privilege| Requirement::new(privilege, object.clone()))
    };
    objects.iter().flat_map(on).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn an_added_grant_takes_a_right_only_by_ending_a_fallback_or_moving_ownership(
        before in grants(),
        added in valid_grant(),
        principal in principal(),
        objects in proptest::collection::vec(object(), 4),
    ) {
        let mut after = before.clone();
        after.insert(added.clone());
        let previous_owner = before.owner_of(&added.object);
        let moved_from_caller = added.privilege == Privilege::Ownership
            && previous_owner.is_some_and(|owner| {
                *owner != added.subject && principal.answers_to(owner)
            });
        for requirement in every_requirement(&objects) {
            if !decide(&principal, &before, &requirement).allowed() {
                continue;
            }
            let Decision::Denied(missing) = decide(&principal, &after, &requirement) else {
                continue;
            };
            let fallback_ended = !before.has_entries(&added.object)
                && missing == Missing { privilege: Privilege::Usage, object: added.object.clone() };
            prop_assert!(
                fallback_ended || moved_from_caller,
                "{added:?} took {requirement:?} from {principal:?}: {missing:?}"
            );
        }
    }

    #[test]
    fn a_grant_on_an_object_that_has_grants_never_takes_a_right(
        before in grants(),
        added in valid_grant(),
        principal in principal(),
        requested in object(),
    ) {
        prop_assume!(added.privilege != Privilege::Ownership);
        prop_assume!(before.has_entries(&added.object));
        let mut after = before.clone();
        after.insert(added);
        for requirement in every_requirement(&[requested]) {
            let allowed = |grants| decide(&principal, grants, &requirement).allowed();
            prop_assert!(!allowed(&before) || allowed(&after), "{requirement:?}");
        }
    }

    #[test]
    fn more_roles_never_take_a_right(
        grants in grants(),
        principal in principal(),
        requested in object(),
    ) {
        let mut promoted = principal.clone();
        promoted.roles.insert("dev".parse().unwrap());
        promoted.groups.insert("eng".to_owned());
        for requirement in every_requirement(&[requested]) {
            let allowed = |who| decide(who, &grants, &requirement).allowed();
            prop_assert!(!allowed(&principal) || allowed(&promoted), "{requirement:?}");
        }
    }

    #[test]
    fn a_caller_that_no_grant_names_may_do_nothing(grants in grants(), requested in object()) {
        let mut stranger = Principal::user(UserName::parse("eve").unwrap());
        stranger.roles.insert("none".parse().unwrap());
        stranger.groups.insert("none".to_owned());
        for requirement in every_requirement(&[requested]) {
            prop_assert!(!decide(&stranger, &grants, &requirement).allowed());
        }
    }

    #[test]
    fn every_right_comes_from_a_grant_to_a_subject_of_the_caller(
        grants in grants(),
        principal in principal(),
        requested in object(),
    ) {
        // Rights are decided by object entries, so other subjects' grants may
        // close a fallback but never open a door.
        let own: Grants = grants.iter().filter(|g| principal.answers_to(&g.subject)).collect();
        for requirement in every_requirement(&[requested]) {
            let allowed = |set| decide(&principal, set, &requirement).allowed();
            prop_assert!(!allowed(&grants) || allowed(&own), "{requirement:?}");
        }
    }

    #[test]
    fn a_privilege_that_is_not_valid_on_an_object_is_never_allowed(
        grants in proptest::collection::vec(any_grant(), 0..40),
        principal in principal(),
        requested in any_grant(),
    ) {
        prop_assume!(!requested.privilege.valid_on(requested.object.kind()));
        let grants: Grants = grants.into_iter().collect();
        let needed = Requirement::new(requested.privilege, requested.object);
        prop_assert!(!decide(&principal, &grants, &needed).allowed());
    }
}
