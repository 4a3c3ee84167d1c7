//! Callers and the subjects that grants name.
//!
//! Owns the validated names of users and roles, the authenticated [`Principal`]
//! and the wire spelling of a [`Subject`]. Never resolves a name at an identity
//! provider and never decides anything.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Longest user or role name, in bytes (PostgreSQL's `NAMEDATALEN` less the
/// terminator).
pub const NAME_BYTES_MAX: usize = 63;

/// Longest group name, in bytes. Groups come from an identity provider, whose
/// names are longer than PostgreSQL's.
pub const GROUP_BYTES_MAX: usize = 256;

/// Names a user: 1 to [`NAME_BYTES_MAX`] bytes without NUL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UserName(String);

/// Names a role: 1 to [`NAME_BYTES_MAX`] bytes without NUL.
///
/// A role needs no declaration: naming it in a grant brings it into existence.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RoleName(String);

/// Says why a name of a user, role or group is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name has no characters.
    #[error("name is empty")]
    Empty,
    /// The name is longer than the limit of its kind.
    #[error("name has {bytes} bytes, at most {bytes_max} are allowed")]
    TooLong {
        /// Length of the refused name.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The name contains a NUL, which no PostgreSQL message can carry.
    #[error("name contains a NUL byte")]
    Nul,
}

impl UserName {
    /// Returns the name if it is well formed.
    ///
    /// # Errors
    /// [`NameError`] if it is empty, too long or contains NUL.
    pub fn parse(name: &str) -> Result<Self, NameError> {
        ensure_name(name, NAME_BYTES_MAX)?;
        Ok(Self(name.to_owned()))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl RoleName {
    /// Returns the name if it is well formed.
    ///
    /// # Errors
    /// [`NameError`] if it is empty, too long or contains NUL.
    pub fn parse(name: &str) -> Result<Self, NameError> {
        ensure_name(name, NAME_BYTES_MAX)?;
        Ok(Self(name.to_owned()))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn ensure_name(name: &str, bytes_max: usize) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > bytes_max {
        return Err(NameError::TooLong { bytes: name.len(), bytes_max });
    }
    if name.contains('\0') {
        return Err(NameError::Nul);
    }
    Ok(())
}

impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for RoleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for UserName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        Self::parse(name)
    }
}

impl FromStr for RoleName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        Self::parse(name)
    }
}

impl TryFrom<String> for UserName {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        Self::parse(&name)
    }
}

impl TryFrom<String> for RoleName {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        Self::parse(&name)
    }
}

impl From<UserName> for String {
    fn from(name: UserName) -> Self {
        name.0
    }
}

impl From<RoleName> for String {
    fn from(name: RoleName) -> Self {
        name.0
    }
}

impl Borrow<str> for UserName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for RoleName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// An authenticated caller with everything that grants may name it by.
///
/// Roles are flat: a role is bound to users and groups, never to another role,
/// so `roles` is already complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The user that logged in.
    pub user: UserName,
    /// Roles bound to the user or to one of its groups.
    pub roles: BTreeSet<RoleName>,
    /// Groups of the user, as the identity provider names them.
    pub groups: BTreeSet<String>,
}

impl Principal {
    /// Returns a caller without roles and groups.
    pub fn user(name: UserName) -> Self {
        Self { user: name, roles: BTreeSet::new(), groups: BTreeSet::new() }
    }

    /// Returns every subject a grant may use to reach this caller: the user,
    /// then its roles, then its groups, each in name order.
    pub fn subjects(&self) -> Vec<Subject> {
        let user = std::iter::once(Subject::User(self.user.clone()));
        let roles = self.roles.iter().cloned().map(Subject::Role);
        let groups = self.groups.iter().cloned().map(Subject::Group);
        user.chain(roles).chain(groups).collect()
    }

    /// Says whether a grant to `subject` reaches this caller.
    pub fn answers_to(&self, subject: &Subject) -> bool {
        match subject {
            Subject::User(user) => *user == self.user,
            Subject::Role(role) => self.roles.contains(role),
            Subject::Group(group) => self.groups.contains(group),
        }
    }
}

/// The one that a grant favours.
///
/// `Display` and `FromStr` use the spelling of the access-control wire: `P:name`
/// for a user, `r:name` for a role, `G:name` for a group. The forms by identity
/// provider id (`p:`, `g:`) and by API key (`a:`) are not subjects of stored
/// grants and are refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Subject {
    /// One user, by name.
    User(UserName),
    /// Every holder of a role.
    Role(RoleName),
    /// Every member of an identity-provider group: 1 to [`GROUP_BYTES_MAX`]
    /// bytes without NUL when it was parsed.
    Group(String),
}

/// Says why a subject cannot be read.
///
/// The refused text is not repeated: behind `a:` it would be an API key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseSubjectError {
    /// The text does not begin with `P:`, `r:` or `G:`.
    #[error("subject must begin with P:, r: or G:")]
    UnknownPrefix,
    /// The name behind the prefix is refused.
    #[error("invalid subject name")]
    Name(#[from] NameError),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "P:{name}"),
            Self::Role(name) => write!(f, "r:{name}"),
            Self::Group(name) => write!(f, "G:{name}"),
        }
    }
}

impl FromStr for Subject {
    type Err = ParseSubjectError;

    fn from_str(text: &str) -> Result<Self, ParseSubjectError> {
        let (prefix, name) = text.split_once(':').ok_or(ParseSubjectError::UnknownPrefix)?;
        match prefix {
            "P" => Ok(Self::User(UserName::parse(name)?)),
            "r" => Ok(Self::Role(RoleName::parse(name)?)),
            "G" => {
                ensure_name(name, GROUP_BYTES_MAX)?;
                Ok(Self::Group(name.to_owned()))
            }
            _ => Err(ParseSubjectError::UnknownPrefix),
        }
    }
}

impl TryFrom<String> for Subject {
    type Error = ParseSubjectError;

    fn try_from(text: String) -> Result<Self, ParseSubjectError> {
        text.parse()
    }
}

impl From<Subject> for String {
    fn from(subject: Subject) -> Self {
        subject.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_holds_1_to_63_bytes_without_nul() {
        let check = |name: &str, expected: Result<(), NameError>| {
            assert_eq!(UserName::parse(name).map(drop), expected, "user {name:?}");
            assert_eq!(RoleName::parse(name).map(drop), expected, "role {name:?}");
        };
        let too_long = |bytes| Err(NameError::TooLong { bytes, bytes_max: 63 });
        check("a", Ok(()));
        check("Ann of the:7 $eas", Ok(()));
        check(&"x".repeat(63), Ok(()));
        check("", Err(NameError::Empty));
        check("a\0b", Err(NameError::Nul));
        check(&"x".repeat(64), too_long(64));
        // The limit counts bytes, not characters.
        check(&"ä".repeat(32), too_long(64));
    }

    #[test]
    fn a_subject_is_spelled_as_on_the_wire() {
        let check = |text: &str, subject: Subject| {
            assert_eq!(text.parse(), Ok(subject.clone()));
            assert_eq!(subject.to_string(), text);
        };
        check("P:ann", Subject::User(UserName::parse("ann").unwrap()));
        check("r:ops", Subject::Role(RoleName::parse("ops").unwrap()));
        check("G:eng:core", Subject::Group("eng:core".to_owned()));
    }

    #[test]
    fn ids_keys_and_nonsense_are_not_subjects() {
        for text in ["", "ann", "p:1", "g:1", "a:lg_key", "R:ops", " P:ann", ":x"] {
            let error = text.parse::<Subject>().unwrap_err();
            assert_eq!(error, ParseSubjectError::UnknownPrefix, "{text:?}");
        }
        assert_eq!("P:".parse::<Subject>(), Err(ParseSubjectError::Name(NameError::Empty)));
    }

    #[test]
    fn a_refused_api_key_is_not_repeated() {
        let error = "a:canary".parse::<Subject>().unwrap_err();
        assert!(!format!("{error} {error:?}").contains("canary"));
    }

    #[test]
    fn a_principal_answers_to_exactly_its_subjects() {
        let mut ann = Principal::user(UserName::parse("ann").unwrap());
        ann.roles.insert(RoleName::parse("ops").unwrap());
        ann.groups.insert("eng".to_owned());
        let spelled: Vec<String> = ann.subjects().iter().map(Subject::to_string).collect();
        assert_eq!(spelled, ["P:ann", "r:ops", "G:eng"]);
        assert!(ann.subjects().iter().all(|s| ann.answers_to(s)));
        for other in ["P:ops", "P:eng", "r:ann", "r:eng", "G:ann", "G:ops"] {
            assert!(!ann.answers_to(&other.parse().unwrap()), "{other}");
        }
    }

    proptest! {
        #[test]
        fn reading_a_written_subject_gives_it_back(kind in 0..3, name in "[^\0]{1,15}") {
            let subject = match kind {
                0 => Subject::User(UserName::parse(&name).unwrap()),
                1 => Subject::Role(RoleName::parse(&name).unwrap()),
                _ => Subject::Group(name),
            };
            prop_assert_eq!(subject.to_string().parse(), Ok(subject));
        }
    }
}
