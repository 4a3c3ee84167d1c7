//! Functions that answer who may do what: `has_table_privilege` and its kin,
//! `pg_has_role` (PostgreSQL, "Access Privilege Inquiry Functions").
//!
//! They answer what a statement would be allowed, the way to the object
//! included, by the same decision. An object that the caller cannot reach looks
//! as if it did not exist. To ask about somebody else than oneself and one's own
//! roles takes USAGE on the system, as looking up others does everywhere.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::Result as DfResult;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{ScalarUDF, Volatility};
use datafusion::scalar::ScalarValue;
use lancegate_auth::{Grants, Object, Principal, Privilege, Requirement, RoleName, UserName, decide};

use super::udf::{RowFunction, text};
use crate::error::{Result, SqlError};
use crate::exec::Engine;
use crate::sql::resolve::{namespace_of, no_database, no_schema, object_of};
use crate::sqlstate::SqlState;
use crate::system::{SystemContext, pg_catalog};

/// The functions that also answer in a statement that reads no relation.
pub const NAMES: [&str; 6] = [
    "has_table_privilege",
    "has_any_column_privilege",
    "has_column_privilege",
    "has_schema_privilege",
    "has_database_privilege",
    "pg_has_role",
];

/// Below this, object ids are PostgreSQL's own and never of a user's object.
const FIRST_OWN_OID: i64 = 16_384;
/// The number of schema `public`.
const PUBLIC_OID: i64 = 2200;

/// Returns the functions of one statement, which answer as of now.
///
/// # Errors
/// If the metadata store or the data root fails.
pub async fn functions(context: &SystemContext) -> Result<Vec<ScalarUDF>> {
    let asked = Arc::new(Asked::load(context).await?);
    let define = |name: &str, objects: usize, answer: fn(&Asked, &Question<'_>) -> Result<Option<bool>>| {
        let asked = Arc::clone(&asked);
        // The user comes first and may be left out; the privilege comes last.
        let body = move |arguments: &[ScalarValue]| asked.answer(arguments, objects, answer);
        RowFunction::define(name, &[objects + 1, objects + 2], DataType::Boolean, Volatility::Stable, body)
    };
    Ok(vec![
        define("has_table_privilege", 1, Asked::table),
        define("has_any_column_privilege", 1, Asked::any_column),
        define("has_column_privilege", 2, Asked::column),
        define("has_schema_privilege", 1, Asked::schema),
        define("has_database_privilege", 1, Asked::database),
        define("pg_has_role", 1, Asked::role),
    ])
}

/// One call: about whom, about what, which privileges.
struct Question<'a> {
    who: Principal,
    objects: &'a [ScalarValue],
    privileges: Vec<Word>,
}

/// One word of the list of privileges, any of which is enough.
struct Word {
    name: String,
    with_grant_option: bool,
}

/// What a privilege of PostgreSQL is here.
enum Meaning {
    Held(Privilege),
    /// Nobody can do it, or there is nothing to do it with.
    Nobody,
}

/// What is known when the statement begins.
struct Asked {
    engine: Engine,
    database: String,
    path: Vec<String>,
    caller: Principal,
    /// Whether the caller may ask about others.
    looks_up: bool,
    grants: Arc<Grants>,
    /// By name; roles are as good as users here.
    roles: HashMap<String, Principal>,
    role_names: HashMap<i64, String>,
    databases: Vec<(i64, String)>,
    schemas: Vec<(i64, String)>,
    relations: Vec<Relation>,
}

struct Relation {
    oid: i64,
    schema: String,
    name: String,
    object: Object,
    columns: Vec<String>,
}

/// A relation that was asked about.
enum Found<'a> {
    Own(&'a Relation),
    /// One of PostgreSQL's, which everybody may read.
    BuiltIn,
    /// No relation has this number.
    Nothing,
}

impl Asked {
    async fn load(context: &SystemContext) -> Result<Self> {
        let (engine, caller) = (&context.engine, &context.caller);
        let objects = context.objects().await?;
        let bindings = engine.catalog().role_bindings().await?;
        let mut roles = HashMap::new();
        for row in &objects.roles {
            // A role has no user; nobody else can have its name.
            let Ok(name) = UserName::parse(&row.name) else { continue };
            let mut principal = Principal::user(name);
            match row.can_login {
                true => principal
                    .roles
                    .extend(bindings.iter().filter(|(user, _)| *user == principal.user).map(|(_, role)| role.clone())),
                false => principal.roles.extend(RoleName::parse(&row.name).ok()),
            }
            roles.insert(row.name.clone(), principal);
        }
        let relations = objects.relations.iter().map(|row| Relation {
            oid: i64::from(row.oid),
            schema: row.schema.clone(),
            name: row.record.name.name.clone(),
            object: object_of(&row.record),
            columns: row.columns.iter().map(|field| field.name().clone()).collect(),
        });
        Ok(Self {
            engine: engine.clone(),
            database: caller.database.clone(),
            path: caller.search_path(),
            caller: caller.principal.clone(),
            looks_up: engine.allows(&caller.principal, Privilege::Usage, Object::System).await?,
            grants: caller.names.grants(engine.catalog()).await?,
            roles,
            role_names: objects.roles.iter().map(|row| (i64::from(row.oid), row.name.clone())).collect(),
            databases: objects.databases.iter().map(|row| (i64::from(row.oid), row.name.clone())).collect(),
            schemas: objects.namespaces.iter().map(|row| (i64::from(row.oid), row.name.clone())).collect(),
            relations: relations.collect(),
        })
    }

    fn answer(
        &self,
        arguments: &[ScalarValue],
        objects: usize,
        answer: fn(&Self, &Question<'_>) -> Result<Option<bool>>,
    ) -> DfResult<ScalarValue> {
        let answered = || -> Result<Option<bool>> {
            if arguments.iter().any(ScalarValue::is_null) {
                return Ok(None);
            }
            let (user, rest) = arguments.split_at(arguments.len() - objects - 1);
            let who = match user.first() {
                Some(user) => match self.who(user)? {
                    Some(who) => who,
                    None => return Ok(Some(false)),
                },
                None => self.caller.clone(),
            };
            let (objects, privilege) = rest.split_at(objects);
            let privileges = privilege.first().and_then(text).map(|list| words(&list)).unwrap_or_default();
            answer(self, &Question { who, objects, privileges })
        };
        answered().map(ScalarValue::Boolean).map_err(|error| DataFusionError::External(Box::new(error)))
    }

    /// Returns the user or role of an argument, `None` for a number of nobody.
    fn who(&self, value: &ScalarValue) -> Result<Option<Principal>> {
        let found = match oid(value) {
            Some(oid) => match self.role_names.get(&oid) {
                Some(name) => self.roles.get(name),
                None => return Ok(None),
            },
            None => {
                let name = text(value).unwrap_or_default();
                let unknown = || SqlError::new(SqlState::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"));
                Some(self.roles.get(&name).ok_or_else(unknown)?)
            }
        };
        // Everybody knows of himself and of the roles that he has.
        let own = |name: &str| {
            name == self.caller.user.as_str() || self.caller.roles.iter().any(|role| role.as_str() == name)
        };
        match found {
            Some(other) if !own(other.user.as_str()) && !self.looks_up => {
                Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, "permission denied for system")
                    .detail("To ask about others takes USAGE ON SYSTEM."))
            }
            found => Ok(found.cloned()),
        }
    }

    fn table(&self, question: &Question<'_>) -> Result<Option<bool>> {
        self.on_relation(question, of_table)
    }

    fn any_column(&self, question: &Question<'_>) -> Result<Option<bool>> {
        self.on_relation(question, of_column)
    }

    fn on_relation(&self, question: &Question<'_>, of: fn(&str) -> Option<Meaning>) -> Result<Option<bool>> {
        match self.relation(&question.objects[0])? {
            Found::Own(relation) => {
                question.any(of, |privilege| self.holds(&question.who, privilege, &relation.object))
            }
            Found::BuiltIn => question.any(of, |privilege| privilege == Privilege::Select),
            Found::Nothing => question.any(of, |_| false).map(|_| None),
        }
    }

    fn column(&self, question: &Question<'_>) -> Result<Option<bool>> {
        let column = &question.objects[1];
        if let Found::Own(relation) = self.relation(&question.objects[0])? {
            let exists = match oid(column) {
                // Numbers count from 1, as in pg_attribute.
                Some(number) => usize::try_from(number).is_ok_and(|n| (1..=relation.columns.len()).contains(&n)),
                None => {
                    let name = text(column).unwrap_or_default();
                    if !relation.columns.contains(&name) {
                        let message = format!("column \"{name}\" of relation \"{}\" does not exist", relation.name);
                        return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
                    }
                    true
                }
            };
            if !exists {
                return Ok(None);
            }
        }
        self.on_relation(question, of_column)
    }

    fn schema(&self, question: &Question<'_>) -> Result<Option<bool>> {
        let value = &question.objects[0];
        let name = match oid(value) {
            Some(oid) => self.schemas.iter().find(|(known, _)| *known == oid).map(|(_, name)| name.clone()),
            None => Some(text(value).unwrap_or_default()),
        };
        let built_in = match (&name, oid(value)) {
            (Some(name), _) => matches!(name.as_str(), "pg_catalog" | "information_schema"),
            (None, oid) => oid.is_some_and(|oid| oid < FIRST_OWN_OID && oid != PUBLIC_OID),
        };
        if built_in {
            return question.any(of_schema, |privilege| privilege == Privilege::Usage);
        }
        let Some(name) = name else { return question.any(of_schema, |_| false).map(|_| None) };
        if !self.schemas.iter().any(|(_, known)| *known == name) {
            return Err(no_schema(&name));
        }
        let object = Object::Namespace { database: self.database.clone(), path: namespace_of(&name) };
        question.any(of_schema, |privilege| self.holds(&question.who, privilege, &object))
    }

    fn database(&self, question: &Question<'_>) -> Result<Option<bool>> {
        let value = &question.objects[0];
        let name = match oid(value) {
            Some(oid) => self.databases.iter().find(|(known, _)| *known == oid).map(|(_, name)| name.clone()),
            None => {
                let name = text(value).unwrap_or_default();
                if !self.databases.iter().any(|(_, known)| *known == name) {
                    return Err(no_database(&name));
                }
                Some(name)
            }
        };
        let Some(name) = name else { return question.any(of_database, |_| false).map(|_| None) };
        let object = Object::Database(name);
        question.any(of_database, |privilege| self.holds(&question.who, privilege, &object))
    }

    /// Membership gives its privileges at once, so that its kinds are one; nobody
    /// hands membership on.
    fn role(&self, question: &Question<'_>) -> Result<Option<bool>> {
        let Some(role) = self.who(&question.objects[0])? else { return Ok(Some(false)) };
        let is_role = |name: &str| question.who.roles.iter().any(|role| role.as_str() == name);
        let member = question.who.user == role.user || is_role(role.user.as_str());
        let mut any = false;
        for word in &question.privileges {
            let known = ["MEMBER", "USAGE", "SET"].contains(&word.name.as_str());
            any |= known && !word.with_grant_option && member;
            if !known {
                return Err(unrecognized(&word.name));
            }
        }
        Ok(Some(any))
    }

    fn holds(&self, who: &Principal, privilege: Privilege, object: &Object) -> bool {
        decide(who, &self.grants, &Requirement::new(privilege, object.clone())).allowed()
    }

    fn relation(&self, value: &ScalarValue) -> Result<Found<'_>> {
        if let Some(oid) = oid(value) {
            let own = self.relations.iter().find(|relation| relation.oid == oid);
            return Ok(match own {
                Some(relation) => Found::Own(relation),
                None if oid < FIRST_OWN_OID => Found::BuiltIn,
                None => Found::Nothing,
            });
        }
        let written = text(value).unwrap_or_default();
        let parts = name_parts(&written)?;
        let unknown = || {
            let message = format!("relation \"{}\" does not exist", parts.join("."));
            SqlError::new(SqlState::UNDEFINED_TABLE, message)
        };
        let (schemas, name) = match parts.as_slice() {
            [name] => (self.path.clone(), name),
            [schema, name] => (vec![schema.clone()], name),
            [database, schema, name] if *database == self.database => (vec![schema.clone()], name),
            _ => return Err(unknown()),
        };
        for schema in schemas {
            let own = self.relations.iter().find(|relation| relation.schema == schema && relation.name == *name);
            if let Some(relation) = own {
                return Ok(Found::Own(relation));
            }
            let built_in = match schema.as_str() {
                "pg_catalog" => pg_catalog::exists(&self.engine, name)?,
                "information_schema" => true,
                _ => false,
            };
            if built_in {
                return Ok(Found::BuiltIn);
            }
        }
        Err(unknown())
    }
}

impl Question<'_> {
    /// Returns whether any of the privileges is held. All of them are read, so
    /// that a misspelt one never passes.
    fn any(&self, meaning: fn(&str) -> Option<Meaning>, holds: impl Fn(Privilege) -> bool) -> Result<Option<bool>> {
        let mut any = false;
        for word in &self.privileges {
            any |= match meaning(&word.name).ok_or_else(|| unrecognized(&word.name))? {
                // Only the owner of an object grants on it.
                Meaning::Held(_) if word.with_grant_option => holds(Privilege::Ownership),
                Meaning::Held(privilege) => holds(privilege),
                Meaning::Nobody => false,
            };
        }
        Ok(Some(any))
    }
}

fn of_table(word: &str) -> Option<Meaning> {
    Some(match word {
        "SELECT" => Meaning::Held(Privilege::Select),
        "INSERT" => Meaning::Held(Privilege::Insert),
        "UPDATE" => Meaning::Held(Privilege::Update),
        "DELETE" => Meaning::Held(Privilege::Delete),
        "TRUNCATE" => Meaning::Held(Privilege::Ownership),
        "REFERENCES" | "TRIGGER" | "MAINTAIN" | "RULE" => Meaning::Nobody,
        _ => return None,
    })
}

fn of_column(word: &str) -> Option<Meaning> {
    matches!(word, "SELECT" | "INSERT" | "UPDATE" | "REFERENCES").then(|| of_table(word)).flatten()
}

fn of_schema(word: &str) -> Option<Meaning> {
    Some(match word {
        "USAGE" => Meaning::Held(Privilege::Usage),
        "CREATE" => Meaning::Held(Privilege::CreateTable),
        _ => return None,
    })
}

fn of_database(word: &str) -> Option<Meaning> {
    Some(match word {
        "CONNECT" => Meaning::Held(Privilege::Usage),
        "CREATE" => Meaning::Held(Privilege::CreateNamespace),
        // There are no temporary tables.
        "TEMPORARY" | "TEMP" => Meaning::Nobody,
        _ => return None,
    })
}

fn unrecognized(word: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("unrecognized privilege type: \"{word}\""))
}

/// Splits a list such as `SELECT, update WITH GRANT OPTION`.
fn words(list: &str) -> Vec<Word> {
    let word = |text: &str| {
        let name = text.trim().to_ascii_uppercase();
        let options = [" WITH GRANT OPTION", " WITH ADMIN OPTION"];
        match options.into_iter().find_map(|option| name.strip_suffix(option)) {
            Some(name) => Word { name: name.trim_end().to_owned(), with_grant_option: true },
            None => Word { name, with_grant_option: false },
        }
    };
    list.split(',').map(word).collect()
}

/// Returns a number that is an object id; a text of digits is a name.
fn oid(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::Utf8(_) | ScalarValue::LargeUtf8(_) | ScalarValue::Utf8View(_) => None,
        other => super::udf::number(other),
    }
}

/// Splits a name as it would stand in a statement: unquoted parts are folded.
pub(super) fn name_parts(written: &str) -> Result<Vec<String>> {
    let invalid = || SqlError::new(SqlState::INVALID_NAME, "invalid name syntax");
    let mut parts = Vec::new();
    let mut rest = written.trim();
    loop {
        let (part, behind) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_part(quoted).ok_or_else(invalid)?,
            None => {
                let end = rest.find(['.', '"']).unwrap_or(rest.len());
                (rest[..end].trim_end().to_lowercase(), &rest[end..])
            }
        };
        if part.is_empty() {
            return Err(invalid());
        }
        parts.push(part);
        rest = behind.trim_start();
        match rest.strip_prefix('.') {
            Some(next) => rest = next.trim_start(),
            None if rest.is_empty() => return Ok(parts),
            None => return Err(invalid()),
        }
    }
}

/// Returns the text up to the closing quote, doubled ones halved, and the rest.
fn quoted_part(text: &str) -> Option<(String, &str)> {
    let mut part = String::new();
    let mut rest = text;
    loop {
        let (before, behind) = rest.split_once('"')?;
        part.push_str(before);
        match behind.strip_prefix('"') {
            Some(more) => {
                part.push('"');
                rest = more;
            }
            None => return Some((part, behind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_as_in_a_statement() {
        let cases: [(&str, Option<&[&str]>); 12] = [
            ("docs", Some(&["docs"])),
            (" Docs ", Some(&["docs"])),
            ("\"Docs\"", Some(&["Docs"])),
            ("public . docs", Some(&["public", "docs"])),
            ("db.\"a$b\".\"x.\"\"y\"", Some(&["db", "a$b", "x.\"y"])),
            ("a.b.c.d", Some(&["a", "b", "c", "d"])),
            ("", None),
            ("a.", None),
            (".a", None),
            ("\"a", None),
            ("\"\"", None),
            ("a\"b\"", None),
        ];
        for (written, expected) in cases {
            let parts = name_parts(written).ok();
            let parts = parts.as_ref().map(|parts| parts.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(parts.as_deref(), expected, "{written}");
        }
    }

    #[test]
    fn lists_of_privileges_are_split_at_commas() {
        let list = words("SELECT, update  with grant option,");
        let list: Vec<(&str, bool)> = list.iter().map(|word| (word.name.as_str(), word.with_grant_option)).collect();
        assert_eq!(list, [("SELECT", false), ("UPDATE", true), ("", false)]);
    }
}
