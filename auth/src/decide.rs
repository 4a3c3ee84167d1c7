//! The one decision: may this caller do that?
//!
//! Owns how grants combine – ownership, the way to an object, objects without
//! entries. Never knows which statement asks; it is given the privileges that
//! the statement needs, and what is not granted is denied. A superuser, if
//! there is one, is the business of the caller of this module.
//!
//! # Rules
//!
//! 1. A privilege that is not valid on the kind of object is denied.
//! 2. Anything on a table, view, materialized view, secret or function needs
//!    `USAGE` on its database and on the namespace that holds it; anything on a
//!    namespace needs `USAGE` on its database. Owners are not exempt.
//! 3. `OWNERSHIP` of an object implies every privilege valid on that object.
//! 4. It implies nothing on objects inside: LanceDB documents full authority
//!    over the object itself and is silent about its content, and silence is
//!    not a permission. The owner of a database passes through it and creates
//!    namespaces; the rows of a table in it stay closed.
//! 5. `USAGE` on a database without any grant falls back to `CREATE_DATABASE`
//!    on the system; on the root namespace of a database, when that namespace
//!    is without any grant, to `CREATE_NAMESPACE` on the database.
//!
//! # What a new grant can take away
//!
//! Rule 5 makes the first grant on a database or on a root namespace end the
//! fallback for those who lived on it, and a grant of `OWNERSHIP` ends that of
//! the previous owner. Nothing else is ever lost: if an added grant turns an
//! allowed request into a denied one, then either `USAGE` on the granted object
//! is what is missing and there was no grant on it before, or the grant took
//! ownership from a subject that the caller answers to.

use crate::grants::Grants;
use crate::object::Object;
use crate::principal::Principal;
use crate::privilege::Privilege;

/// A privilege on an object that a statement needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirement {
    /// The privilege.
    pub privilege: Privilege,
    /// The object it must be held on.
    pub object: Object,
}

impl Requirement {
    /// Returns the requirement of `privilege` on `object`.
    pub fn new(privilege: Privilege, object: Object) -> Self {
        Self { privilege, object }
    }

    /// Returns what the job registry takes to read or control: `USAGE` and
    /// `OPERATE` on the system, both.
    pub fn job_registry() -> [Self; 2] {
        [Self::new(Privilege::Usage, Object::System), Self::new(Privilege::Operate, Object::System)]
    }
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Decision {
    /// The caller may.
    Allowed,
    /// The caller may not.
    Denied(Missing),
}

impl Decision {
    /// Says whether the caller may.
    pub fn allowed(&self) -> bool {
        matches!(self, Self::Allowed)
    }
}

/// The outermost privilege that the caller lacks.
///
/// When `object` is not the required object but a parent of it, the caller
/// cannot see the required one, and an answer must not tell whether it exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The privilege that is not held.
    pub privilege: Privilege,
    /// The object it is not held on.
    pub object: Object,
}

/// Decides one requirement under the module's rules.
pub fn decide(principal: &Principal, grants: &Grants, requirement: &Requirement) -> Decision {
    let caller = Caller { principal, grants };
    let Requirement { privilege, object } = requirement;
    for parent in object.parents() {
        if !caller.may_traverse(&parent) {
            return denied(Privilege::Usage, parent);
        }
    }
    let allowed =
        if *privilege == Privilege::Usage { caller.may_traverse(object) } else { caller.has(*privilege, object) };
    if !allowed {
        return denied(*privilege, object.clone());
    }
    Decision::Allowed
}

/// Decides requirements in their order and returns the first denial.
///
/// No requirements means that nothing is needed, which is allowed.
pub fn decide_all(principal: &Principal, grants: &Grants, requirements: &[Requirement]) -> Decision {
    requirements
        .iter()
        .map(|requirement| decide(principal, grants, requirement))
        .find(|decision| !decision.allowed())
        .unwrap_or(Decision::Allowed)
}

fn denied(privilege: Privilege, object: Object) -> Decision {
    Decision::Denied(Missing { privilege, object })
}

struct Caller<'a> {
    principal: &'a Principal,
    grants: &'a Grants,
}

impl Caller<'_> {
    /// Rules 1 and 3.
    fn has(&self, privilege: Privilege, object: &Object) -> bool {
        privilege.valid_on(object.kind()) && (self.grants.holds(self.principal, privilege, object) || self.owns(object))
    }

    fn owns(&self, object: &Object) -> bool {
        self.grants.holds(self.principal, Privilege::Ownership, object)
    }

    /// `USAGE`, with rule 5. Kinds without a fallback are used, not traversed,
    /// but the answer is the same.
    fn may_traverse(&self, object: &Object) -> bool {
        if self.grants.has_entries(object) {
            return self.has(Privilege::Usage, object);
        }
        match object {
            Object::Database(_) => self.has(Privilege::CreateDatabase, &Object::System),
            Object::Namespace { database, path } if path.is_empty() => {
                let database = Object::Database(database.clone());
                self.has(Privilege::CreateNamespace, &database)
            }
            Object::Namespace { .. }
            | Object::System
            | Object::Table { .. }
            | Object::View { .. }
            | Object::MaterializedView { .. }
            | Object::Secret { .. }
            | Object::Function { .. }
            | Object::StorageIntegration(_) => false,
        }
    }
}

#[cfg(test)]
mod tests;
