//! Users and grants in the metadata store, for bootstrap and rescue.
//!
//! The command line works through here while no gateway runs; the gateway
//! itself only creates the first user. Everyday administration is SQL.

use chrono::Utc;
use lancegate_auth::{
    EntropyUnavailable, Grant, NameError, Object, Privilege, ScramVerifier, Secret, Subject, UserName,
};
use lancegate_catalog::{Catalog, CatalogError, NewUser, ObjectChange, User, UserChange};

/// The name of the first user and of the database that `--data` is the root of.
pub const FIRST_USER: &str = "lancegate";

/// Returns [`FIRST_USER`] as a name.
pub fn first_user() -> UserName {
    UserName::parse(FIRST_USER).expect("the literal is a valid name")
}

/// Characters of a random password: no 0, 1, i, l or o, which look alike.
const PASSWORD_ALPHABET: &[u8] = b"23456789abcdefghjkmnpqrstuvwxyz";
/// Characters of a random password; about 118 bits.
const PASSWORD_CHARS: usize = 24;

/// Why administration failed.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The metadata store refused.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// The operating system has no randomness.
    #[error(transparent)]
    Entropy(#[from] EntropyUnavailable),
    /// The name cannot be a user's.
    #[error("\"{name}\" cannot be a user's name")]
    Name {
        /// The name.
        name: String,
        /// The cause.
        #[source]
        source: NameError,
    },
    /// The password is empty.
    #[error("the password is empty")]
    EmptyPassword,
}

/// The login that the first start created.
#[derive(Debug, Clone)]
pub struct FirstLogin {
    /// The name.
    pub user: String,
    /// The password if it is a random one, which nobody else knows; `None` if
    /// the operator chose it.
    pub random_password: Option<Secret<String>>,
}

/// Creates user `lancegate` if there is no user at all.
///
/// # Errors
/// See [`AdminError`].
pub async fn ensure_first_user(
    catalog: &Catalog,
    chosen: Option<&Secret<String>>,
) -> Result<Option<FirstLogin>, AdminError> {
    if !catalog.users().await?.is_empty() {
        return Ok(None);
    }
    let random = if chosen.is_none() { Some(random_password()?) } else { None };
    let password = chosen.or(random.as_ref()).expect("one of the two is there");
    // The user comes last: its existence says that the grants are there.
    catalog.apply(first_grants().into_iter().map(ObjectChange::Grant).collect()).await?;
    add_user(catalog, FIRST_USER, password).await?;
    Ok(Some(FirstLogin { user: FIRST_USER.to_owned(), random_password: random }))
}

/// Adds a user who can log in and has no privilege yet.
///
/// # Errors
/// See [`AdminError`]; the name may be taken.
pub async fn add_user(catalog: &Catalog, name: &str, password: &Secret<String>) -> Result<(), AdminError> {
    let user = NewUser {
        name: user_name(name)?,
        verifier: Some(verifier(password)?),
        valid_until: None,
        connection_limit: None,
    };
    Ok(catalog.create_user(user, Utc::now()).await?)
}

/// Gives a user another password; open sessions go on.
///
/// # Errors
/// See [`AdminError`]; the user may not exist.
pub async fn set_password(catalog: &Catalog, name: &str, password: &Secret<String>) -> Result<(), AdminError> {
    let change = UserChange { verifier: Some(Some(verifier(password)?)), ..UserChange::default() };
    Ok(catalog.alter_user(&user_name(name)?, change).await?)
}

/// Returns all users in the order of their names.
///
/// # Errors
/// See [`AdminError`].
pub async fn list_users(catalog: &Catalog) -> Result<Vec<User>, AdminError> {
    Ok(catalog.users().await?)
}

/// Removes a user.
///
/// # Errors
/// See [`AdminError`]; the user may not exist or own something.
pub async fn drop_user(catalog: &Catalog, name: &str) -> Result<(), AdminError> {
    Ok(catalog.drop_user(&user_name(name)?).await?)
}

/// Grants privileges on one object to one subject: all of them or, if one does
/// not fit the object, none.
///
/// # Errors
/// See [`AdminError`].
pub async fn grant(
    catalog: &Catalog,
    privileges: &[Privilege],
    object: &Object,
    subject: &Subject,
) -> Result<(), AdminError> {
    let grant =
        |privilege: &Privilege| Grant { subject: subject.clone(), privilege: *privilege, object: object.clone() };
    Ok(catalog.apply(privileges.iter().map(grant).map(ObjectChange::Grant).collect()).await?)
}

/// Returns a random password that is easy to read and type.
///
/// # Errors
/// The operating system has no randomness.
pub fn random_password() -> Result<Secret<String>, EntropyUnavailable> {
    let mut password = String::with_capacity(PASSWORD_CHARS);
    // A byte past the last whole multiple is thrown away, so that every
    // character is equally likely.
    let usable = 256 - 256 % PASSWORD_ALPHABET.len();
    while password.len() < PASSWORD_CHARS {
        let [byte] = lancegate_auth::random_bytes::<1>()?;
        let index = usize::from(byte);
        if index < usable {
            password.push(char::from(PASSWORD_ALPHABET[index % PASSWORD_ALPHABET.len()]));
        }
    }
    Ok(Secret::new(password))
}

fn first_grants() -> Vec<Grant> {
    let subject = Subject::User(UserName::parse(FIRST_USER).expect("the constant is a valid name"));
    let database = Object::Database(FIRST_USER.to_owned());
    let root = Object::Namespace { database: FIRST_USER.to_owned(), path: Vec::new() };
    [
        (Privilege::Usage, Object::System),
        (Privilege::Operate, Object::System),
        (Privilege::CreateDatabase, Object::System),
        (Privilege::Ownership, database),
        (Privilege::Ownership, root),
    ]
    .map(|(privilege, object)| Grant { subject: subject.clone(), privilege, object })
    .to_vec()
}

fn user_name(name: &str) -> Result<UserName, AdminError> {
    UserName::parse(name).map_err(|source| AdminError::Name { name: name.to_owned(), source })
}

fn verifier(password: &Secret<String>) -> Result<String, AdminError> {
    if password.expose().is_empty() {
        return Err(AdminError::EmptyPassword);
    }
    let salt = lancegate_auth::random_bytes()?;
    let iterations = lancegate_auth::scram::ITERATIONS_DEFAULT;
    Ok(ScramVerifier::from_password(password.expose(), salt, iterations).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_passwords_are_long_different_and_without_look_alikes() {
        let first = random_password().unwrap();
        let second = random_password().unwrap();
        assert_eq!(first.expose().len(), PASSWORD_CHARS);
        assert_ne!(first.expose(), second.expose());
        assert!(!first.expose().contains(['0', '1', 'i', 'l', 'o', 'I', 'O']));
    }

    #[test]
    fn every_first_grant_is_valid_on_its_object() {
        for grant in first_grants() {
            assert!(grant.privilege.valid_on(grant.object.kind()), "{grant:?}");
        }
    }
}
