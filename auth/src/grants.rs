//! The set of grants.
//!
//! Owns the index from objects to the subjects favoured on them and the rule
//! that an object has one owner. Never decides a request (see
//! [`decide`](crate::decide())) and never checks who may grant.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::object::Object;
use crate::principal::{Principal, RoleName, Subject, UserName};
use crate::privilege::Privilege;

/// One privilege on one object for one subject.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Grant {
    /// The favoured.
    pub subject: Subject,
    /// What it allows.
    pub privilege: Privilege,
    /// Where.
    pub object: Object,
}

/// A set of grants, indexed by object.
///
/// Clones share their content until one of them changes, so a clone is a cheap
/// snapshot. Grants on a materialized view are kept as grants on a table, and
/// come back as such.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Grants {
    entries: Arc<BTreeMap<Object, Entry>>,
}

/// The grants on one object. The owner is a field and not a bit, so that there
/// cannot be two.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Entry {
    owner: Option<Subject>,
    users: BTreeMap<UserName, PrivilegeSet>,
    roles: BTreeMap<RoleName, PrivilegeSet>,
    groups: BTreeMap<String, PrivilegeSet>,
    /// There are stored grants that this version cannot read.
    unreadable: bool,
}

/// One bit per privilege, at its wire number; never `OWNERSHIP`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct PrivilegeSet(u16);

impl Grants {
    /// Returns a set without grants.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a grant and says whether the set changed.
    ///
    /// A grant of `OWNERSHIP` takes it from the previous owner, who keeps what
    /// else was granted. A privilege that is not valid on the object is not
    /// added ([`Privilege::valid_on`]).
    pub fn insert(&mut self, grant: Grant) -> bool {
        if !grant.privilege.valid_on(grant.object.kind()) || self.contains(&grant) {
            return false;
        }
        let object = grant.object.acl_object().into_owned();
        let entry = Arc::make_mut(&mut self.entries).entry(object).or_default();
        if grant.privilege == Privilege::Ownership {
            entry.owner = Some(grant.subject);
        } else {
            entry.set_mut(grant.subject).add(grant.privilege);
        }
        true
    }

    /// Removes a grant and says whether it was there.
    ///
    /// This is the plain set operation: that `OWNERSHIP` cannot be revoked is a
    /// rule of the statement.
    pub fn remove(&mut self, grant: &Grant) -> bool {
        if !self.contains(grant) {
            return false;
        }
        let object = grant.object.acl_object();
        let entries = Arc::make_mut(&mut self.entries);
        let entry = entries.get_mut(&*object).expect("the grant was found under this object");
        entry.remove(&grant.subject, grant.privilege);
        if entry.is_empty() {
            entries.remove(&*object);
        }
        true
    }

    /// Notes that the store has a grant on `object` that cannot be read, because
    /// a newer version wrote its subject or privilege.
    ///
    /// It favours nobody, but the object counts as having grants: otherwise the
    /// fallback of an object without any would open it.
    pub fn insert_unreadable(&mut self, object: &Object) {
        let object = object.acl_object().into_owned();
        let entry = Arc::make_mut(&mut self.entries).entry(object).or_default();
        entry.unreadable = true;
    }

    /// Removes every grant on `object`, as when it is dropped, and says whether
    /// there was one.
    pub fn remove_object(&mut self, object: &Object) -> bool {
        let object = object.acl_object();
        self.entries.contains_key(&*object) && Arc::make_mut(&mut self.entries).remove(&*object).is_some()
    }

    /// Moves every grant on `from` to `to`, in the place of those that were there.
    pub fn rename_object(&mut self, from: &Object, to: &Object) {
        self.remove_object(to);
        let from = from.acl_object();
        if self.entries.contains_key(&*from) {
            let entries = Arc::make_mut(&mut self.entries);
            let moved = entries.remove(&*from);
            entries.extend(moved.map(|entry| (to.acl_object().into_owned(), entry)));
        }
    }

    /// Says whether the set has exactly this grant.
    pub fn contains(&self, grant: &Grant) -> bool {
        self.entry(&grant.object).is_some_and(|entry| entry.contains(&grant.subject, grant.privilege))
    }

    /// Returns every grant, ordered by object; on one object first the owner,
    /// then users, roles and groups by name.
    pub fn iter(&self) -> impl Iterator<Item = Grant> + '_ {
        self.entries.iter().flat_map(|(object, entry)| entry.grants(object))
    }

    /// Returns the grants on `object`, in the order of [`Grants::iter`].
    pub fn iter_on(&self, object: &Object) -> impl Iterator<Item = Grant> + '_ {
        self.entries.get_key_value(&*object.acl_object()).into_iter().flat_map(|(object, entry)| entry.grants(object))
    }

    /// Says whether there is any grant on `object`, readable or not.
    pub fn has_entries(&self, object: &Object) -> bool {
        self.entry(object).is_some()
    }

    /// Returns the holder of `OWNERSHIP` on `object`.
    pub fn owner_of(&self, object: &Object) -> Option<&Subject> {
        self.entry(object)?.owner.as_ref()
    }

    /// Says whether a grant of exactly `privilege` on `object` reaches the
    /// caller as user, through a role or through a group.
    ///
    /// Nothing is implied here: ownership and the way to the object are
    /// [`decide`](crate::decide())'s business.
    pub fn holds(&self, principal: &Principal, privilege: Privilege, object: &Object) -> bool {
        let Some(entry) = self.entry(object) else {
            return false;
        };
        if privilege == Privilege::Ownership {
            return entry.owner.as_ref().is_some_and(|o| principal.answers_to(o));
        }
        let holds = |set: Option<&PrivilegeSet>| set.is_some_and(|set| set.has(privilege));
        holds(entry.users.get(&principal.user))
            || principal.roles.iter().any(|r| holds(entry.roles.get(r)))
            || principal.groups.iter().any(|g| holds(entry.groups.get(g)))
    }

    fn entry(&self, object: &Object) -> Option<&Entry> {
        self.entries.get(&*object.acl_object())
    }
}

/// Later grants of `OWNERSHIP` win over earlier ones on the same object.
impl FromIterator<Grant> for Grants {
    fn from_iter<I: IntoIterator<Item = Grant>>(grants: I) -> Self {
        let mut set = Self::new();
        set.extend(grants);
        set
    }
}

impl Extend<Grant> for Grants {
    fn extend<I: IntoIterator<Item = Grant>>(&mut self, grants: I) {
        for grant in grants {
            self.insert(grant);
        }
    }
}

impl Entry {
    fn contains(&self, subject: &Subject, privilege: Privilege) -> bool {
        if privilege == Privilege::Ownership {
            return self.owner.as_ref() == Some(subject);
        }
        let set = match subject {
            Subject::User(user) => self.users.get(user),
            Subject::Role(role) => self.roles.get(role),
            Subject::Group(group) => self.groups.get(group),
        };
        set.is_some_and(|set| set.has(privilege))
    }

    fn set_mut(&mut self, subject: Subject) -> &mut PrivilegeSet {
        match subject {
            Subject::User(user) => self.users.entry(user).or_default(),
            Subject::Role(role) => self.roles.entry(role).or_default(),
            Subject::Group(group) => self.groups.entry(group).or_default(),
        }
    }

    fn remove(&mut self, subject: &Subject, privilege: Privilege) {
        if privilege == Privilege::Ownership {
            self.owner = None;
            return;
        }
        self.set_mut(subject.clone()).take(privilege);
        self.users.retain(|_, set| !set.is_empty());
        self.roles.retain(|_, set| !set.is_empty());
        self.groups.retain(|_, set| !set.is_empty());
    }

    fn is_empty(&self) -> bool {
        !self.unreadable
            && self.owner.is_none()
            && self.users.is_empty()
            && self.roles.is_empty()
            && self.groups.is_empty()
    }

    fn grants<'a>(&'a self, object: &'a Object) -> impl Iterator<Item = Grant> + 'a {
        let owner = self.owner.iter().map(|subject| (subject.clone(), Privilege::Ownership));
        let users = self.users.iter().flat_map(|(user, set)| {
            let subject = Subject::User(user.clone());
            set.iter().map(move |p| (subject.clone(), p))
        });
        let roles = self.roles.iter().flat_map(|(role, set)| {
            let subject = Subject::Role(role.clone());
            set.iter().map(move |p| (subject.clone(), p))
        });
        let groups = self.groups.iter().flat_map(|(group, set)| {
            let subject = Subject::Group(group.clone());
            set.iter().map(move |p| (subject.clone(), p))
        });
        owner.chain(users).chain(roles).chain(groups).map(|(subject, privilege)| Grant {
            subject,
            privilege,
            object: object.clone(),
        })
    }
}

impl PrivilegeSet {
    fn has(self, privilege: Privilege) -> bool {
        self.0 & Self::bit(privilege) != 0
    }

    fn add(&mut self, privilege: Privilege) {
        self.0 |= Self::bit(privilege);
    }

    fn take(&mut self, privilege: Privilege) {
        self.0 &= !Self::bit(privilege);
    }

    fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn iter(self) -> impl Iterator<Item = Privilege> {
        Privilege::ALL.into_iter().filter(move |p| self.has(*p))
    }

    fn bit(privilege: Privilege) -> u16 {
        1 << privilege.code()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(subject: &str, privilege: &str, object: &str) -> Grant {
        Grant {
            subject: subject.parse().unwrap(),
            privilege: Privilege::from_acl(privilege).unwrap(),
            object: object.parse().unwrap(),
        }
    }

    fn spelled(grants: &Grants) -> Vec<String> {
        grants.iter().map(|g| format!("{} {} {}", g.subject, g.privilege.as_acl(), g.object)).collect()
    }

    #[test]
    fn grants_are_a_set_listed_by_object() {
        let t = "table:db:public$t";
        let mut grants: Grants = [
            grant("G:eng", "SELECT", t),
            grant("r:ops", "SELECT", t),
            grant("P:ann", "DELETE", t),
            grant("P:ann", "SELECT", t),
            grant("P:bob", "OWNERSHIP", t),
            grant("P:ann", "USAGE", "database:db"),
            grant("P:ann", "SELECT", t),
        ]
        .into_iter()
        .collect();
        let expected = [
            "P:ann USAGE database:db",
            "P:bob OWNERSHIP table:db:public$t",
            "P:ann SELECT table:db:public$t",
            "P:ann DELETE table:db:public$t",
            "r:ops SELECT table:db:public$t",
            "G:eng SELECT table:db:public$t",
        ];
        assert_eq!(spelled(&grants), expected);
        assert_eq!(grants.iter().collect::<Grants>(), grants);
        assert_eq!(grants.iter_on(&t.parse().unwrap()).count(), 5);

        assert!(!grants.insert(grant("P:ann", "SELECT", t)));
        assert!(grants.remove(&grant("P:ann", "SELECT", t)));
        assert!(!grants.remove(&grant("P:ann", "SELECT", t)));
        assert!(grants.remove_object(&t.parse().unwrap()));
        assert!(!grants.remove_object(&t.parse().unwrap()));
        assert_eq!(spelled(&grants), ["P:ann USAGE database:db"]);
    }

    #[test]
    fn an_object_has_one_owner_and_granting_ownership_transfers_it() {
        let t = "table:db:public$t";
        let mut grants = Grants::new();
        assert!(grants.insert(grant("P:ann", "OWNERSHIP", t)));
        assert!(grants.insert(grant("P:ann", "SELECT", t)));
        assert!(grants.insert(grant("r:ops", "OWNERSHIP", t)));
        assert_eq!(spelled(&grants), ["r:ops OWNERSHIP table:db:public$t", "P:ann SELECT table:db:public$t"]);
        let owner = grants.owner_of(&t.parse().unwrap());
        assert_eq!(owner, Some(&"r:ops".parse().unwrap()));
        assert!(!grants.remove(&grant("P:ann", "OWNERSHIP", t)));
    }

    #[test]
    fn a_privilege_that_is_not_valid_on_the_object_leaves_no_trace() {
        let mut grants = Grants::new();
        assert!(!grants.insert(grant("P:ann", "OWNERSHIP", "system")));
        assert!(!grants.insert(grant("P:ann", "SELECT", "database:db")));
        assert!(!grants.has_entries(&Object::System));
        assert_eq!(grants, Grants::new());
    }

    #[test]
    fn an_unreadable_grant_favours_nobody_and_still_counts() {
        let db = Object::Database("db".to_owned());
        let mut grants = Grants::new();
        grants.insert_unreadable(&db);
        grants.insert(grant("P:ann", "USAGE", "database:db"));
        grants.remove(&grant("P:ann", "USAGE", "database:db"));
        assert!(grants.has_entries(&db));
        assert_eq!(grants.iter().count(), 0);
        assert!(grants.remove_object(&db));
        assert!(!grants.has_entries(&db));
    }

    #[test]
    fn the_last_revoke_leaves_an_object_without_entries() {
        let mut grants = Grants::new();
        grants.insert(grant("G:eng", "USAGE", "database:db"));
        grants.remove(&grant("G:eng", "USAGE", "database:db"));
        assert_eq!(grants, Grants::new());
    }

    #[test]
    fn a_materialized_view_and_a_table_of_one_name_share_their_grants() {
        let view = Object::MaterializedView { database: "db".to_owned(), namespace: Vec::new(), name: "t".to_owned() };
        let mut grants = Grants::new();
        assert!(grants.insert(Grant { object: view.clone(), ..grant("P:ann", "SELECT", "system") }));
        assert_eq!(spelled(&grants), ["P:ann SELECT table:db:public$t"]);
        assert!(grants.has_entries(&view));
    }

    #[test]
    fn a_snapshot_does_not_see_later_changes() {
        let mut grants = Grants::new();
        grants.insert(grant("P:ann", "USAGE", "database:db"));
        let snapshot = grants.clone();
        grants.insert(grant("P:bob", "USAGE", "database:db"));
        assert_eq!(spelled(&snapshot), ["P:ann USAGE database:db"]);
    }
}
