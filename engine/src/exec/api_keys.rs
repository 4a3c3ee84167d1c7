//! Runs CREATE, DROP and SHOW API KEYS, and finds the user of a key.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::SchemaRef;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::Utc;
use lancegate_auth::{Principal, random_bytes};
use lancegate_catalog::{ApiKey, Timestamp};
use lancegate_sql::Ident;
use sha2::{Digest, Sha256};

use crate::error::{Result, SqlError};
use crate::exec::{Engine, Outcome, users};
use crate::session::{NoticeSeverity, Session};
use crate::sql::plan::ApiKeyPlan;
use crate::sqlstate::SqlState;

/// What every key begins with, so that scanners for leaked keys find it.
const PREFIX: &str = "lgk_";

impl Engine {
    /// Returns whom an API key logs in, `None` for a key that is unknown or no
    /// longer works, or whose user may not log in any more.
    ///
    /// # Errors
    /// If the metadata store fails.
    pub async fn principal_of_key(&self, key: &str) -> Result<Option<Principal>> {
        match self.login_of_key(key).await? {
            Some(login) => self.principal(login.user).await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns the key behind an API key as [`Engine::principal_of_key`] does, to
    /// see whose it is and how long it works.
    ///
    /// # Errors
    /// If the metadata store fails.
    pub async fn login_of_key(&self, key: &str) -> Result<Option<ApiKey>> {
        // The store finds it by digest: how long that takes says nothing about a key.
        let Some(stored) = self.catalog().api_key_of(&digest(key)).await? else { return Ok(None) };
        let now = Utc::now();
        let Some(user) = self.catalog().user(&stored.user).await? else { return Ok(None) };
        let expired = user.valid_until.is_some_and(|until| until <= now);
        Ok((!expired && stored.is_valid(now)).then_some(stored))
    }
}

/// Runs one statement about API keys.
pub(super) async fn run(engine: &Engine, session: &Session, plan: &ApiKeyPlan) -> Result<Outcome> {
    match plan {
        ApiKeyPlan::Create { name, user, valid_until, schema } => {
            let user = match user {
                Some(user) => users::user_name(user)?,
                None => session.principal.user.clone(),
            };
            let random: [u8; 32] = random_bytes().map_err(SqlError::internal)?;
            let key = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random));
            let stored = ApiKey {
                name: name.as_str().to_owned(),
                user,
                digest: digest(&key),
                created_at: Utc::now(),
                valid_until: valid_until.as_deref().map(users::until).transpose()?.flatten(),
            };
            engine.catalog().create_api_key(stored).await?;
            let columns: Vec<ArrayRef> = vec![text([name.as_str()]), text([key.as_str()])];
            Ok(Outcome::batch(RecordBatch::try_new(Arc::clone(schema), columns)?, "CREATE API KEY"))
        }
        ApiKeyPlan::Drop { name, owned: None } => {
            session.notify(NoticeSeverity::Notice, skipping(name));
            Ok(Outcome::Done("DROP API KEY".to_owned()))
        }
        ApiKeyPlan::Drop { name, owned: Some(_) } => {
            engine.catalog().drop_api_key(name.as_str()).await?;
            Ok(Outcome::Done("DROP API KEY".to_owned()))
        }
        ApiKeyPlan::Show { all, schema } => show(engine, session, *all, schema).await,
    }
}

async fn show(engine: &Engine, session: &Session, all: bool, schema: &SchemaRef) -> Result<Outcome> {
    let mut keys = engine.catalog().api_keys().await?;
    keys.retain(|key| all || key.user == session.principal.user);
    let time = |value: &dyn Fn(&ApiKey) -> Option<Timestamp>| -> ArrayRef {
        let micros = keys.iter().map(|key| value(key).map(|time| time.timestamp_micros()));
        Arc::new(TimestampMicrosecondArray::from_iter(micros).with_timezone("UTC"))
    };
    let columns: Vec<ArrayRef> = vec![
        text(keys.iter().map(|key| key.name.as_str())),
        text(keys.iter().map(|key| key.user.as_str())),
        time(&|key| Some(key.created_at)),
        time(&|key| key.valid_until),
    ];
    Ok(Outcome::batch(RecordBatch::try_new(Arc::clone(schema), columns)?, "SHOW"))
}

fn text<'a>(values: impl IntoIterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn digest(key: &str) -> String {
    Sha256::digest(key.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn skipping(name: &Ident) -> SqlError {
    SqlError::new(SqlState::SUCCESSFUL_COMPLETION, format!("API key \"{name}\" does not exist, skipping"))
}
