//! Who a caller is and what that caller may do.
//!
//! The crate owns identities ([`principal`]), the things privileges are granted
//! on ([`object`], [`privilege`]), the set of grants ([`grants`]) and the one
//! decision over it ([`mod@decide`]). It owns what proves an identity, too: the
//! ordered rules of who has to prove what ([`hba`]), the server side of
//! SCRAM-SHA-256 ([`scram`]) and of OAUTHBEARER ([`oauthbearer`]), signed tokens
//! ([`jwt`]), names in certificates ([`certificate`]), the map from those names to
//! users ([`usermap`]) and the failed-login throttle ([`throttle`]).
//!
//! It never opens a socket, reads a clock, parses SQL, touches storage or maps
//! an error to an SQLSTATE: callers pass time, randomness and snapshots in as
//! values and translate the answers. Nothing here logs, and no error or `Debug`
//! output carries a password, a key or a proof.

pub mod certificate;
pub mod decide;
pub mod grants;
pub mod hba;
pub mod jwt;
mod lines;
pub mod oauthbearer;
pub mod object;
pub mod principal;
pub mod privilege;
pub mod random;
pub mod scram;
pub mod secret;
pub mod throttle;
pub mod usermap;

pub use certificate::{CertificateNames, UnreadableCertificate};
pub use decide::{Decision, Missing, Requirement, decide, decide_all};
pub use grants::{Grant, Grants};
pub use hba::{Channel, Claim, ClientCertificate, Method, Rule, Rules, RulesError};
pub use jwt::{Algorithm, Issuer, KeySet, Token, TokenError, UntrustedToken};
pub use object::{NameRule, Object, ObjectKind, ParseObjectError};
pub use principal::{NameError, ParseSubjectError, Principal, RoleName, Subject, UserName};
pub use privilege::{Privilege, UnknownPrivilege};
pub use random::{EntropyUnavailable, random_bytes};
pub use scram::{AwaitingFinal, ChannelBinding, MockSecret, ScramError, ScramVerifier, ServerExchange, VerifierError};
pub use secret::Secret;
pub use throttle::{Throttle, ThrottleConfig, ThrottleKey, Verdict};
pub use usermap::UserMaps;
