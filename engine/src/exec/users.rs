//! Runs CREATE, ALTER and DROP USER, SHOW USERS.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int32Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use chrono::{DateTime, Utc};
use lancegate_auth::{ScramVerifier, UserName, random_bytes};
use lancegate_catalog::{NewUser, Timestamp, User, UserChange};
use lancegate_sql::Ident;
use lancegate_sql::ast::{Password, Statement, UserOptions};

use crate::error::{Result, SqlError};
use crate::exec::{Engine, Outcome};
use crate::session::{NoticeSeverity, Session};
use crate::sql::plan::UserPlan;
use crate::sqlstate::SqlState;

/// Iterations of SCRAM-SHA-256, as in PostgreSQL (`scram_iterations`).
const SCRAM_ITERATIONS: u32 = 4096;

/// Runs one statement about users.
pub(super) async fn run(engine: &Engine, session: &mut Session, plan: &UserPlan) -> Result<Outcome> {
    match &plan.statement {
        Statement::CreateUser(create) => {
            let name = user_name(&create.name)?;
            if create.if_not_exists && engine.catalog().user(&name).await?.is_some() {
                let message = format!("role \"{name}\" already exists, skipping");
                session.notify(NoticeSeverity::Notice, SqlError::new(SqlState::DUPLICATE_OBJECT, message));
            } else {
                let change = change(engine, &create.options).await?;
                let user = NewUser {
                    verifier: change.verifier.flatten(),
                    valid_until: change.valid_until.flatten(),
                    connection_limit: change.connection_limit.flatten(),
                    ..NewUser::new(name)
                };
                engine.catalog().create_user(user, Utc::now()).await?;
            }
        }
        Statement::AlterUser(alter) => {
            let name = user_name(&alter.name)?;
            if alter.if_exists && engine.catalog().user(&name).await?.is_none() {
                let message = format!("role \"{name}\" does not exist, skipping");
                session.notify(NoticeSeverity::Notice, SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message));
            } else {
                let change = change(engine, &alter.options).await?;
                engine.catalog().alter_user(&name, change).await?;
            }
        }
        Statement::DropUser(drop) => drop_users(engine, session, drop.if_exists, &drop.names).await?,
        _ => return show(engine, plan).await,
    }
    Ok(Outcome::Done(plan.writes().unwrap_or("SHOW").to_owned()))
}

async fn drop_users(engine: &Engine, session: &Session, if_exists: bool, names: &[Ident]) -> Result<()> {
    for name in names {
        let name = user_name(name)?;
        if name == session.principal.user {
            return Err(SqlError::new(SqlState::OBJECT_IN_USE, "current user cannot be dropped"));
        }
        if if_exists && engine.catalog().user(&name).await?.is_none() {
            let message = format!("role \"{name}\" does not exist, skipping");
            session.notify(NoticeSeverity::Notice, SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message));
            continue;
        }
        engine.catalog().drop_user(&name).await?;
    }
    Ok(())
}

async fn show(engine: &Engine, plan: &UserPlan) -> Result<Outcome> {
    let users = engine.catalog().users().await?;
    let schema = plan.schema.clone().ok_or_else(|| SqlError::internal("SHOW USERS has no columns"))?;
    let time = |value: &dyn Fn(&User) -> Option<Timestamp>| -> ArrayRef {
        let micros = users.iter().map(|user| value(user).map(|time| time.timestamp_micros()));
        Arc::new(TimestampMicrosecondArray::from_iter(micros).with_timezone("UTC"))
    };
    let limits = users.iter().map(|user| user.connection_limit.and_then(|limit| i32::try_from(limit).ok()));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(users.iter().map(|user| user.name.as_str()))),
        Arc::new(BooleanArray::from_iter(users.iter().map(|user| Some(user.verifier.is_some())))),
        time(&|user| user.valid_until),
        Arc::new(Int32Array::from_iter(limits)),
        time(&|user| Some(user.created_at)),
    ];
    Ok(Outcome::batch(RecordBatch::try_new(schema, columns)?, "SHOW"))
}

async fn change(engine: &Engine, options: &UserOptions) -> Result<UserChange> {
    let verifier = match &options.password {
        None => None,
        Some(None) => Some(None),
        Some(Some(password)) => Some(Some(verifier(engine, password).await?)),
    };
    Ok(UserChange {
        verifier,
        valid_until: options.valid_until.as_deref().map(until).transpose()?,
        connection_limit: options.connection_limit.map(|limit| u32::try_from(limit).ok()),
    })
}

/// Hashing takes milliseconds by design, so it goes to a thread of its own.
async fn verifier(engine: &Engine, password: &Password) -> Result<String> {
    if password.expose().is_empty() {
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "empty string is not a valid password"));
    }
    if let Ok(given) = ScramVerifier::parse(password.expose()) {
        // As in PostgreSQL, what already is a verifier is stored as it is.
        return Ok(given.to_string());
    }
    let salt = random_bytes().map_err(SqlError::internal)?;
    let password = password.expose().to_owned();
    engine
        .runtime()
        .run(async move {
            let hashed = tokio::task::spawn_blocking(move || {
                ScramVerifier::from_password(&password, salt, SCRAM_ITERATIONS).to_string()
            });
            hashed.await.map_err(SqlError::internal)
        })
        .await
}

pub(super) fn until(text: &str) -> Result<Option<Timestamp>> {
    if text.eq_ignore_ascii_case("infinity") {
        return Ok(None);
    }
    let parsed = DateTime::parse_from_rfc3339(text).map(|time| time.with_timezone(&Utc)).or_else(|_| {
        let day = chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d");
        let time = chrono::NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S");
        time.or_else(|_| day.map(|day| day.and_time(chrono::NaiveTime::MIN))).map(|time| time.and_utc())
    });
    parsed.map(Some).map_err(|_| {
        let message = format!("invalid input syntax for type timestamp with time zone: \"{text}\"");
        SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
    })
}

pub(super) fn user_name(name: &Ident) -> Result<UserName> {
    if name.as_str().starts_with("pg_") {
        let message = format!("role name \"{name}\" is reserved");
        return Err(
            SqlError::new(SqlState::INVALID_NAME, message).detail("Role names starting with \"pg_\" are reserved.")
        );
    }
    UserName::parse(name.as_str()).map_err(|error| SqlError::new(SqlState::INVALID_NAME, error.to_string()))
}
