//! Who may connect, from where, and what proves it: ordered rules in the format
//! of PostgreSQL's `pg_hba.conf`.
//!
//! The first rule whose connection type, database, user and address fit decides;
//! there is no fall-through to a later one, and no rule means no. A file is read
//! as a whole: one line that is not understood refuses all of it, so that no rule
//! is ever skipped (PostgreSQL documentation, "The pg_hba.conf File").
//!
//! Left out on purpose, and refused by name: `trust`, methods that send or store
//! weak hashes, host names (they would ask DNS before anybody is known), regular
//! expressions, and files that include others.

mod network;
mod parse;

use std::fmt;
use std::net::IpAddr;

use crate::principal::RoleName;

pub use network::Network;

/// The most bytes of a file of rules.
pub const FILE_BYTES_MAX: usize = 1024 * 1024;

/// The rules that hold where no file is named: passwords by SCRAM, in the clear
/// only where the caller lets plaintext in at all.
pub const DEFAULT: &str = "local all all scram-sha-256\nhost all all all scram-sha-256\n";

/// Ordered rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    rules: Vec<Rule>,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The line that it begins on.
    pub line: usize,
    connection: ConnectionType,
    databases: Vec<DatabaseName>,
    users: Vec<UserPattern>,
    networks: Networks,
    /// What the client has to prove.
    pub method: Method,
    /// A certificate that is needed besides.
    pub client_certificate: ClientCertificate,
    /// The map from what was proved to users; `None`: both are the same text.
    pub map: Option<String>,
    /// The only issuer of tokens that is accepted; `None`: any that is configured.
    pub issuer: Option<String>,
}

/// The first column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionType {
    /// `local`: a Unix socket.
    Local,
    /// `host`: TCP, encrypted or not.
    Host,
    /// `hostssl`: TCP through TLS.
    HostSsl,
    /// `hostnossl`: TCP in the clear.
    HostNoSsl,
}

/// One entry of the second column.
#[derive(Debug, Clone, PartialEq, Eq)]
enum DatabaseName {
    All,
    SameUser,
    SameRole,
    /// Matches nothing: replication is not spoken.
    Replication,
    Named(String),
}

/// One entry of the third column.
#[derive(Debug, Clone, PartialEq, Eq)]
enum UserPattern {
    All,
    Named(String),
    /// `+role`: who has the role.
    MemberOf(String),
}

/// The address column.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Networks {
    /// A Unix socket has no address.
    None,
    All,
    /// `samehost`: an address of this machine; only loopback is known to be one.
    Loopback,
    One(Network),
}

/// What the client has to prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// A password, without showing it: `scram-sha-256`.
    ScramSha256,
    /// A token in the password field, through TLS: `jwt`.
    Jwt,
    /// A token by SASL OAUTHBEARER, through TLS: `oauth`.
    OAuth,
    /// An API key in the password field: `api-key`.
    ApiKey,
    /// A client certificate alone: `cert`.
    Certificate,
    /// The user of the operating system at the other end of a Unix socket: `peer`.
    Peer,
    /// Nobody: `reject`.
    Reject,
}

/// What `clientcert` asks for besides the method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCertificate {
    /// Nothing.
    Unasked,
    /// `verify-ca`: any that the authority has signed.
    VerifyCa,
    /// `verify-full`: one of whose names is the user, by way of the map.
    VerifyFull,
}

/// How a client came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// Over a Unix socket.
    Local,
    /// Over TCP in the clear.
    Plain,
    /// Over TCP through TLS.
    Tls,
}

/// What a client claims before it has proved anything.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// How it came.
    pub channel: Channel,
    /// From where; `None` over a Unix socket.
    pub address: Option<IpAddr>,
    /// The database that it wants.
    pub database: &'a str,
    /// The user that it says it is.
    pub user: &'a str,
    /// The roles of that user; see [`Rules::asks_roles`].
    pub roles: &'a [RoleName],
}

/// One line that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct LineError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

/// Everything that is wrong with a file of rules.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct RulesError(pub Vec<LineError>);

impl fmt::Display for RulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl Rules {
    /// Reads a file of rules.
    ///
    /// # Errors
    /// [`RulesError`] with every line that is not understood, or that the file has
    /// no rule at all, which would let nobody in.
    pub fn parse(text: &str) -> Result<Self, RulesError> {
        parse::rules(text).map(|rules| Self { rules })
    }

    /// Returns the first rule that fits.
    pub fn first(&self, claim: &Claim<'_>) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.fits(claim))
    }

    /// Returns whether a rule asks which roles a user has.
    pub fn asks_roles(&self) -> bool {
        let by_role = |user: &UserPattern| matches!(user, UserPattern::MemberOf(_));
        self.rules.iter().any(|rule| rule.users.iter().any(by_role) || rule.databases.contains(&DatabaseName::SameRole))
    }

    /// Returns the rules in order.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter()
    }
}

impl Rule {
    fn fits(&self, claim: &Claim<'_>) -> bool {
        self.connection.fits(claim.channel)
            && self.networks.fits(claim.address)
            && self.databases.iter().any(|database| database.fits(claim))
            && self.users.iter().any(|user| user.fits(claim))
    }

    /// Returns whether the rule reads a client certificate.
    pub fn reads_certificate(&self) -> bool {
        self.method == Method::Certificate || self.client_certificate != ClientCertificate::Unasked
    }
}

impl ConnectionType {
    fn fits(self, channel: Channel) -> bool {
        match self {
            Self::Local => channel == Channel::Local,
            Self::Host => channel != Channel::Local,
            Self::HostSsl => channel == Channel::Tls,
            Self::HostNoSsl => channel == Channel::Plain,
        }
    }
}

impl DatabaseName {
    fn fits(&self, claim: &Claim<'_>) -> bool {
        match self {
            Self::All => true,
            Self::SameUser => claim.database == claim.user,
            Self::SameRole => claim.database == claim.user || has_role(claim, claim.database),
            Self::Replication => false,
            Self::Named(name) => name == claim.database,
        }
    }
}

impl UserPattern {
    fn fits(&self, claim: &Claim<'_>) -> bool {
        match self {
            Self::All => true,
            Self::Named(name) => name == claim.user,
            // As in PostgreSQL, everybody is a member of the role of his own name.
            Self::MemberOf(role) => role == claim.user || has_role(claim, role),
        }
    }
}

fn has_role(claim: &Claim<'_>, name: &str) -> bool {
    claim.roles.iter().any(|role| role.as_str() == name)
}

impl Networks {
    fn fits(&self, address: Option<IpAddr>) -> bool {
        match (self, address) {
            (Self::None, None) => true,
            (Self::None, Some(_)) | (_, None) => false,
            (Self::All, Some(_)) => true,
            (Self::Loopback, Some(address)) => address.to_canonical().is_loopback(),
            (Self::One(network), Some(address)) => network.contains(address),
        }
    }

    /// Returns whether nobody but this machine is in it.
    fn is_loopback(&self) -> bool {
        match self {
            Self::None | Self::All => false,
            Self::Loopback => true,
            Self::One(network) => network.is_loopback(),
        }
    }
}

impl Method {
    /// Returns the word of the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ScramSha256 => "scram-sha-256",
            Self::Jwt => "jwt",
            Self::OAuth => "oauth",
            Self::ApiKey => "api-key",
            Self::Certificate => "cert",
            Self::Peer => "peer",
            Self::Reject => "reject",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests;
