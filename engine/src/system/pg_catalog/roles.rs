//! Databases and roles.

use arrow::array::RecordBatch;
use datafusion::scalar::ScalarValue;

use crate::error::Result;
use crate::system::objects::{Kind, Objects, boolean, int, null, relation, text};

/// Returns `pg_database`.
pub(super) fn pg_database(objects: &Objects) -> Result<RecordBatch> {
    let columns = [
        ("oid", Kind::Oid("oid")),
        ("datname", Kind::Text),
        ("datdba", Kind::Int),
        ("encoding", Kind::Int),
        ("datlocprovider", Kind::Text),
        ("datistemplate", Kind::Bool),
        ("datallowconn", Kind::Bool),
        ("datconnlimit", Kind::Int),
        ("datfrozenxid", Kind::Int),
        ("datminmxid", Kind::Int),
        ("dattablespace", Kind::Int),
        ("datcollate", Kind::Text),
        ("datctype", Kind::Text),
        ("daticulocale", Kind::Text),
        ("daticurules", Kind::Text),
        ("datcollversion", Kind::Text),
        ("datacl", Kind::Texts),
    ];
    let rows = objects.databases.iter().map(|database| {
        vec![
            int(database.oid),
            text(&database.name),
            int(database.owner),
            int(6),
            text("c"),
            boolean(false),
            boolean(true),
            int(-1),
            int(0),
            int(0),
            int(1663),
            text("C"),
            text("C"),
            null(),
            null(),
            null(),
            null(),
        ]
    });
    relation(&columns, rows.collect())
}

/// Returns `pg_roles`, with the columns that `pg_authid` has besides. Stored
/// passwords are never shown.
pub(super) fn pg_roles(objects: &Objects) -> Result<RecordBatch> {
    let columns = [
        ("oid", Kind::Oid("oid")),
        ("rolname", Kind::Text),
        ("rolsuper", Kind::Bool),
        ("rolinherit", Kind::Bool),
        ("rolcreaterole", Kind::Bool),
        ("rolcreatedb", Kind::Bool),
        ("rolcanlogin", Kind::Bool),
        ("rolreplication", Kind::Bool),
        ("rolconnlimit", Kind::Int),
        ("rolpassword", Kind::Text),
        ("rolvaliduntil", Kind::Time),
        ("rolbypassrls", Kind::Bool),
        ("rolconfig", Kind::Texts),
    ];
    let rows = objects.roles.iter().map(|role| {
        vec![
            int(role.oid),
            text(&role.name),
            boolean(false),
            boolean(true),
            boolean(role.operates),
            boolean(role.creates_databases),
            boolean(role.can_login),
            boolean(false),
            int(role.connection_limit),
            text("********"),
            until(role.valid_until),
            boolean(false),
            null(),
        ]
    });
    relation(&columns, rows.collect())
}

/// Returns `pg_user`.
pub(super) fn pg_user(objects: &Objects) -> Result<RecordBatch> {
    let columns = [
        ("usename", Kind::Text),
        ("usesysid", Kind::Int),
        ("usecreatedb", Kind::Bool),
        ("usesuper", Kind::Bool),
        ("userepl", Kind::Bool),
        ("usebypassrls", Kind::Bool),
        ("passwd", Kind::Text),
        ("valuntil", Kind::Time),
        ("useconfig", Kind::Texts),
    ];
    let rows = objects.roles.iter().filter(|role| role.can_login).map(|role| {
        vec![
            text(&role.name),
            int(role.oid),
            boolean(role.creates_databases),
            boolean(false),
            boolean(false),
            boolean(false),
            text("********"),
            until(role.valid_until),
            null(),
        ]
    });
    relation(&columns, rows.collect())
}

/// Returns `pg_auth_members`, empty: roles are listed by SHOW ROLES, to those
/// who may see them.
pub(super) fn pg_auth_members() -> Result<RecordBatch> {
    let columns = [
        ("oid", Kind::Oid("oid")),
        ("roleid", Kind::Int),
        ("member", Kind::Int),
        ("grantor", Kind::Int),
        ("admin_option", Kind::Bool),
        ("inherit_option", Kind::Bool),
        ("set_option", Kind::Bool),
    ];
    relation(&columns, Vec::new())
}

fn until(micros: Option<i64>) -> ScalarValue {
    match micros {
        Some(micros) => ScalarValue::TimestampMicrosecond(Some(micros), Some("UTC".into())),
        None => null(),
    }
}
