//! Grants and role bindings.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use lancegate_auth::{Grant, Grants, Object, Privilege, RoleName, Subject, UserName};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqlitePool};

use super::rows::damaged;
use super::writer::Tx;
use super::{Catalog, Durability};
use crate::error::{CatalogError, EntityKind, Result};

/// All grants and role bindings, as of one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Access {
    grants: Arc<Grants>,
    bindings: BTreeSet<(UserName, RoleName)>,
}

/// Keeps [`Access`] in memory until the writer changes something.
#[derive(Debug, Default)]
pub(super) struct GrantCache {
    slot: Mutex<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    /// Counts invalidations, so that what was read before one is not kept.
    generation: u64,
    access: Option<Arc<Access>>,
}

impl GrantCache {
    /// Forgets what was read. Called after the commit of a change and before
    /// it is acknowledged.
    pub(super) fn invalidate(&self) {
        let mut slot = self.slot();
        slot.generation += 1;
        slot.access = None;
    }

    async fn get(&self, readers: &SqlitePool) -> Result<Arc<Access>> {
        let generation = {
            let slot = self.slot();
            if let Some(access) = &slot.access {
                return Ok(Arc::clone(access));
            }
            slot.generation
        };
        let access = Arc::new(read(readers).await?);
        let mut slot = self.slot();
        if slot.generation == generation {
            slot.access = Some(Arc::clone(&access));
        }
        Ok(access)
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Slot> {
        // No panic can happen while it is held.
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Catalog {
    /// Adds a grant and returns whether that changed anything. A grant of
    /// OWNERSHIP takes the object from its owner.
    ///
    /// # Errors
    ///
    /// [`InvalidGrant`](CatalogError::InvalidGrant).
    pub async fn grant(&self, grant: Grant) -> Result<bool> {
        self.write(Durability::Full, move |tx| Box::pin(async move { insert(tx, &grant).await })).await
    }

    /// Removes a grant.
    ///
    /// # Errors
    ///
    /// [`NotFound`](CatalogError::NotFound),
    /// [`OwnershipRevoked`](CatalogError::OwnershipRevoked).
    pub async fn revoke(&self, grant: Grant) -> Result<()> {
        self.write(Durability::Full, move |tx| Box::pin(async move { remove(tx, &grant).await })).await
    }

    /// Returns all grants as of now, from memory unless they have changed. A
    /// stored grant that this software does not understand allows nothing and
    /// is left out.
    ///
    /// # Errors
    ///
    /// [`Store`](CatalogError::Store).
    pub async fn grants(&self) -> Result<Arc<Grants>> {
        Ok(Arc::clone(&self.access().await?.grants))
    }

    /// Returns the grants on one object, the owner first.
    ///
    /// # Errors
    ///
    /// [`Store`](CatalogError::Store).
    pub async fn grants_of(&self, object: &Object) -> Result<Vec<Grant>> {
        Ok(self.access().await?.grants.iter_on(object).collect())
    }

    /// Gives a role to a user and returns whether that changed anything.
    /// Neither has to exist: users may come from elsewhere, and a role is
    /// nothing but its name.
    ///
    /// # Errors
    ///
    /// [`Store`](CatalogError::Store).
    pub async fn bind_role(&self, role: &RoleName, user: &UserName) -> Result<bool> {
        let (role, user) = (role.clone(), user.clone());
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                let inserted = sqlx::query(
                    "INSERT INTO role_bindings (role, user_name) VALUES ($1, $2)
                     ON CONFLICT (role, user_name) DO NOTHING",
                )
                .bind(role.as_str())
                .bind(user.as_str())
                .execute(tx.connection())
                .await?;
                tx.grants_changed();
                Ok(inserted.rows_affected() == 1)
            })
        })
        .await
    }

    /// Takes a role from a user.
    ///
    /// # Errors
    ///
    /// [`NotFound`](CatalogError::NotFound).
    pub async fn unbind_role(&self, role: &RoleName, user: &UserName) -> Result<()> {
        let (role, user) = (role.clone(), user.clone());
        self.write(Durability::Full, move |tx| {
            Box::pin(async move {
                let deleted = sqlx::query("DELETE FROM role_bindings WHERE role = $1 AND user_name = $2")
                    .bind(role.as_str())
                    .bind(user.as_str())
                    .execute(tx.connection())
                    .await?;
                tx.grants_changed();
                if deleted.rows_affected() == 0 {
                    return Err(CatalogError::not_found(EntityKind::RoleBinding, role));
                }
                Ok(())
            })
        })
        .await
    }

    /// Returns the roles of a user, from memory unless they have changed.
    ///
    /// # Errors
    ///
    /// [`Store`](CatalogError::Store).
    pub async fn roles_of(&self, user: &UserName) -> Result<BTreeSet<RoleName>> {
        let access = self.access().await?;
        let of_user = access.bindings.iter().filter(|(bound, _)| bound == user);
        Ok(of_user.map(|(_, role)| role.clone()).collect())
    }

    /// Returns every role binding, ordered by user and role.
    ///
    /// # Errors
    ///
    /// [`Store`](CatalogError::Store).
    pub async fn role_bindings(&self) -> Result<Vec<(UserName, RoleName)>> {
        Ok(self.access().await?.bindings.iter().cloned().collect())
    }

    async fn access(&self) -> Result<Arc<Access>> {
        self.inner.grants.get(self.readers()).await
    }
}

pub(super) async fn insert(tx: &mut Tx, grant: &Grant) -> Result<bool> {
    if !grant.privilege.valid_on(grant.object.kind()) {
        let (privilege, object) = (grant.privilege, grant.object.clone());
        return Err(CatalogError::InvalidGrant { privilege, object });
    }
    let subject = grant.subject.to_string();
    let object = grant.object.to_string();
    if grant.privilege == Privilege::Ownership {
        sqlx::query("DELETE FROM grants WHERE object = $1 AND privilege = 'OWNERSHIP' AND subject <> $2")
            .bind(&object)
            .bind(&subject)
            .execute(tx.connection())
            .await?;
    }
    let inserted = sqlx::query(
        "INSERT INTO grants (subject, object, privilege) VALUES ($1, $2, $3)
         ON CONFLICT (subject, object, privilege) DO NOTHING",
    )
    .bind(subject)
    .bind(object)
    .bind(grant.privilege.as_acl())
    .execute(tx.connection())
    .await?;
    tx.grants_changed();
    Ok(inserted.rows_affected() == 1)
}

pub(super) async fn remove(tx: &mut Tx, grant: &Grant) -> Result<()> {
    if grant.privilege == Privilege::Ownership {
        return Err(CatalogError::OwnershipRevoked { object: grant.object.clone() });
    }
    let deleted = sqlx::query("DELETE FROM grants WHERE subject = $1 AND object = $2 AND privilege = $3")
        .bind(grant.subject.to_string())
        .bind(grant.object.to_string())
        .bind(grant.privilege.as_acl())
        .execute(tx.connection())
        .await?;
    tx.grants_changed();
    if deleted.rows_affected() == 0 {
        let name = format!("{} on {} to {}", grant.privilege, grant.object, grant.subject);
        return Err(CatalogError::not_found(EntityKind::Grant, name));
    }
    Ok(())
}

/// Removes every grant on an object that ceases to exist, so that the next
/// one of its name starts without them.
pub(super) async fn remove_object(tx: &mut Tx, object: &Object) -> Result<()> {
    sqlx::query("DELETE FROM grants WHERE object = $1").bind(object.to_string()).execute(tx.connection()).await?;
    tx.grants_changed();
    Ok(())
}

/// Moves every grant on an object to its new name.
pub(super) async fn rename_object(tx: &mut Tx, from: &Object, to: &Object) -> Result<()> {
    // Grants may be there from before, for an object that was lost.
    remove_object(tx, to).await?;
    sqlx::query("UPDATE grants SET object = $1 WHERE object = $2")
        .bind(to.to_string())
        .bind(from.to_string())
        .execute(tx.connection())
        .await?;
    Ok(())
}

async fn read(readers: &SqlitePool) -> Result<Access> {
    let mut transaction = readers.begin().await?;
    let rows = sqlx::query("SELECT subject, object, privilege FROM grants").fetch_all(&mut *transaction).await?;
    let (mut grants, mut bindings) = (Grants::default(), BTreeSet::new());
    for row in &rows {
        match grant(row) {
            Ok(grant) => {
                grants.insert(grant);
            }
            Err(error) => tracing::warn!(%error, "a stored grant is ignored"),
        }
    }
    let rows = sqlx::query("SELECT user_name, role FROM role_bindings").fetch_all(&mut *transaction).await?;
    for row in &rows {
        let (user, role): (&str, &str) = (row.try_get("user_name")?, row.try_get("role")?);
        match (UserName::parse(user), RoleName::parse(role)) {
            (Ok(user), Ok(role)) => {
                bindings.insert((user, role));
            }
            _ => tracing::warn!(user, role, "a stored role binding is ignored"),
        }
    }
    Ok(Access { grants: Arc::new(grants), bindings })
}

fn grant(row: &SqliteRow) -> Result<Grant> {
    let subject: &str = row.try_get("subject")?;
    let object: &str = row.try_get("object")?;
    let privilege: &str = row.try_get("privilege")?;
    Ok(Grant {
        subject: subject.parse::<Subject>().map_err(|_| damaged("subject", subject))?,
        object: object.parse::<Object>().map_err(|_| damaged("object", object))?,
        privilege: Privilege::from_acl(privilege).map_err(|_| damaged("privilege", privilege))?,
    })
}
