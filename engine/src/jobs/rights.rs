//! What the user of a job must still hold when an attempt begins.
//!
//! A job runs with the privileges of the user who submitted it. Between
//! submission and claim they may have been revoked, so the document of the job
//! keeps what the statement needed, and each claim decides it anew. An attempt
//! that runs goes on when they are revoked, as a statement does.

use lancegate_auth::{Grants, Object, Principal, Privilege, Requirement, UserName};
use lancegate_catalog::{Catalog, Job};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::verdict::failure;
use super::work::WorkError;
use crate::error::SqlError;
use crate::sql::authorize;
use crate::sql::resolve::object_of;

/// The field of a job's document that holds what it needs.
pub(crate) const REQUIRES: &str = "requires";
/// The name of the error of a job whose user lost a privilege.
const ERROR_NAME: &str = "InsufficientPrivilegeError";

/// One requirement as it is stored.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Stored {
    /// The privilege, as access-control entries spell it.
    privilege: String,
    /// The object; none is the table of the job, whatever its name is by then.
    object: Option<Object>,
}

/// Returns what a job's document keeps of requirements; `table` is the job's.
pub(crate) fn stored(requirements: &[Requirement], table: &Object) -> Value {
    let stored = requirements.iter().map(|Requirement { privilege, object }| Stored {
        privilege: privilege.as_acl().to_owned(),
        object: (object != table).then(|| object.clone()),
    });
    serde_json::json!(stored.collect::<Vec<_>>())
}

/// Decides over the grants of this moment whether an attempt may begin.
///
/// # Errors
/// [`WorkError::Failed`] if the user lost a privilege, [`WorkError::Transient`] if
/// the registry cannot be read.
pub(super) async fn ensure(catalog: &Catalog, job: &Job) -> Result<(), WorkError> {
    let needed = needed(job)?;
    let table = match job.table_id {
        Some(id) => catalog.table_by_id(id).await.map_err(unreadable)?,
        None => None,
    };
    let table = table.as_ref().map(object_of);
    let grants = catalog.grants().await.map_err(unreadable)?;
    let user = UserName::parse(&job.submitted_by).map_err(|error| damaged(&error.to_string()))?;
    let roles = catalog.roles_of(&user).await.map_err(unreadable)?;
    let principal = Principal { roles, ..Principal::user(user) };
    for Stored { privilege, object } in needed {
        // Without its table the job ends anyway, and says so better.
        let Some(object) = object.or_else(|| table.clone()) else { continue };
        let privilege = Privilege::from_acl(&privilege).map_err(|_| damaged(&privilege))?;
        decide(&principal, &grants, &Requirement::new(privilege, object))?;
    }
    Ok(())
}

fn decide(principal: &Principal, grants: &Grants, requirement: &Requirement) -> Result<(), WorkError> {
    authorize::ensure(principal, grants, requirement).map_err(|error| {
        let submitter = format!("User \"{}\" submitted the job.", principal.user);
        let detail = match &error.detail {
            Some(detail) => format!("{detail} {submitter}"),
            None => submitter,
        };
        WorkError::Failed(failure(&error.detail(detail).named(ERROR_NAME)))
    })
}

fn needed(job: &Job) -> Result<Vec<Stored>, WorkError> {
    match job.spec.get(REQUIRES) {
        Some(value) => serde_json::from_value(value.clone()).map_err(|error| damaged(&error.to_string())),
        // Jobs of software that did not store it are refreshes by expressions.
        None => {
            let of_table = |privilege: Privilege| Stored { privilege: privilege.as_acl().to_owned(), object: None };
            Ok(vec![of_table(Privilege::Update), of_table(Privilege::Select)])
        }
    }
}

fn unreadable(error: lancegate_catalog::CatalogError) -> WorkError {
    WorkError::Transient(failure(&SqlError::from(error)))
}

fn damaged(what: &str) -> WorkError {
    WorkError::Failed(failure(&SqlError::internal(format!("unreadable requirements of a job: {what}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_a_job_is_stored_as_such_and_others_by_name() {
        let table: Object = "table:db:public$docs".parse().unwrap();
        let function: Object = "function:db:public$embed".parse().unwrap();
        let requirements =
            [Requirement::new(Privilege::Update, table.clone()), Requirement::new(Privilege::Usage, function.clone())];
        let value = stored(&requirements, &table);
        let read: Vec<Stored> = serde_json::from_value(value).unwrap();
        let expected = [
            Stored { privilege: "UPDATE".to_owned(), object: None },
            Stored { privilege: "USAGE".to_owned(), object: Some(function) },
        ];
        assert_eq!(read, expected);
    }
}
