//! Who may connect how: the rules in force, and reading them again.
//!
//! Rules and maps are read and checked as one. What is wrong with them refuses the
//! start, and leaves the old ones in force afterwards.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use lancegate_auth::hba::{DEFAULT, FILE_BYTES_MAX};
use lancegate_auth::{ClientCertificate, Method, Rules, RulesError, UserMaps};
use lancegate_engine::config::Config;

/// Why rules are refused.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A file cannot be read.
    #[error("{key}: {} cannot be read: {source}", path.display())]
    Unreadable {
        /// The key that names it.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Lines are not understood.
    #[error("{key}: {}: {source}", path.display())]
    Lines {
        /// The key that names it.
        key: &'static str,
        /// The file.
        path: PathBuf,
        /// The lines.
        source: RulesError,
    },
    /// A rule needs what is not configured.
    #[error("pg.hba_file: line {line}: {what}")]
    Unconfigured {
        /// The line of the rule.
        line: usize,
        /// What is missing.
        what: String,
    },
}

impl AccessError {
    /// Returns the key of the file that is wrong.
    pub fn key(&self) -> &'static str {
        match self {
            Self::Unreadable { key, .. } | Self::Lines { key, .. } => key,
            Self::Unconfigured { .. } => "pg.hba_file",
        }
    }
}

/// Rules with their maps.
#[derive(Debug)]
pub struct AccessRules {
    pub(in crate::pg) rules: Rules,
    pub(in crate::pg) maps: UserMaps,
}

impl AccessRules {
    /// Reads the files of a configuration; without them, the defaults.
    ///
    /// # Errors
    /// See [`AccessError`].
    pub fn load(config: &Config) -> Result<Self, AccessError> {
        let maps = match &config.pg.ident_file {
            None => UserMaps::default(),
            Some(path) => parse("pg.ident_file", path, UserMaps::parse)?,
        };
        let rules = match &config.pg.hba_file {
            None => Rules::parse(DEFAULT).expect("the constant has rules"),
            Some(path) => parse("pg.hba_file", path, Rules::parse)?,
        };
        let access = Self { rules, maps };
        access.ensure_configured(config)?;
        Ok(access)
    }

    /// Returns the number of rules.
    pub fn count(&self) -> usize {
        self.rules.iter().count()
    }

    /// A rule that can never let anybody in because something else is missing is a
    /// mistake that would be noticed by the wrong person.
    fn ensure_configured(&self, config: &Config) -> Result<(), AccessError> {
        for rule in self.rules.iter() {
            let refuse = |what: String| Err(AccessError::Unconfigured { line: rule.line, what });
            if let Some(map) = rule.map.as_deref().filter(|map| !self.maps.has(map)) {
                return refuse(format!("there is no map \"{map}\" in pg.ident_file"));
            }
            if rule.reads_certificate() && config.pg.tls_client_ca.is_none() {
                return refuse("client certificates take \"pg.tls_client_ca\"".to_owned());
            }
            if matches!(rule.method, Method::Jwt | Method::OAuth) {
                if config.jwt_issuers.is_empty() {
                    return refuse(format!("method \"{}\" takes an entry of [[jwt_issuers]]", rule.method));
                }
                let known = |name: &str| config.jwt_issuers.iter().any(|issuer| issuer.issuer == name);
                if let Some(issuer) = rule.issuer.as_deref().filter(|issuer| !known(issuer)) {
                    return refuse(format!("issuer \"{issuer}\" is not in [[jwt_issuers]]"));
                }
            }
            // A map of a token has nothing to do with the certificate.
            let maps_token = matches!(rule.method, Method::Jwt | Method::OAuth);
            if rule.client_certificate == ClientCertificate::VerifyCa && rule.map.is_some() && !maps_token {
                return refuse("clientcert=verify-ca reads no name, so no map can be used".to_owned());
            }
        }
        Ok(())
    }
}

fn parse<T>(
    key: &'static str,
    path: &Path,
    parse: impl FnOnce(&str) -> Result<T, RulesError>,
) -> Result<T, AccessError> {
    let unreadable = |source| AccessError::Unreadable { key, path: path.to_owned(), source };
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(FILE_BYTES_MAX as u64 + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() > FILE_BYTES_MAX {
        let too_long = format!("it is longer than {FILE_BYTES_MAX} bytes");
        return Err(unreadable(std::io::Error::new(std::io::ErrorKind::FileTooLarge, too_long)));
    }
    parse(&text).map_err(|source| AccessError::Lines { key, path: path.to_owned(), source })
}

/// The rules in force.
#[derive(Debug)]
pub(in crate::pg) struct Access(RwLock<Arc<AccessRules>>);

impl Access {
    pub(in crate::pg) fn new(rules: AccessRules) -> Self {
        Self(RwLock::new(Arc::new(rules)))
    }

    pub(in crate::pg) fn get(&self) -> Arc<AccessRules> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(in crate::pg) fn replace(&self, rules: AccessRules) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }
}
