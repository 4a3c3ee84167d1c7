//! The options of computed columns and materialized views: mostly when they
//! are refreshed by themselves.

use std::fmt;

use super::list::OptionReader;
use super::refresh::{branch, join_pairs};
use super::{OptionPositions, SqlOption, WithClause};
use crate::error::ParseError;
use crate::name::Literal;

/// The longest interval whose milliseconds fit 64 bits.
const INTERVAL_SECONDS_MAX: u64 = u64::MAX / 1_000;

/// The options of a computed column.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ColumnOptions {
    /// Whether the column is refreshed by itself.
    pub auto_refresh_enabled: Option<bool>,
    /// The least seconds from a successful refresh to the next automatic one.
    pub auto_refresh_interval_seconds: Option<u64>,
    /// The version of the Function; the newest without it.
    pub version: Option<String>,
    /// The branch.
    pub branch: Option<String>,
    /// Where each option stands in the text.
    pub positions: OptionPositions,
}

impl ColumnOptions {
    /// The names of all options of a declaration.
    pub const SUPPORTED: &'static [&'static str] =
        &["auto_refresh_enabled", "auto_refresh_interval_seconds", "version", "branch"];
    /// The names of the options that can change later.
    pub const SETTABLE: &'static [&'static str] = &["auto_refresh_enabled", "auto_refresh_interval_seconds"];

    /// Reads the options of a declaration.
    ///
    /// # Errors
    /// `UnknownOption`, `DuplicateOption` or `BadOptionValue`.
    pub fn from_options(options: &[SqlOption]) -> Result<Self, ParseError> {
        Self::read(options, OptionReader::new("ADD COLUMN", Self::SUPPORTED))
    }

    /// Reads the options of `ALTER COLUMN … SET`.
    ///
    /// # Errors
    /// `UnknownOption`, `DuplicateOption` or `BadOptionValue`.
    pub fn from_settable(options: &[SqlOption]) -> Result<Self, ParseError> {
        Self::read(options, OptionReader::new("ALTER COLUMN", Self::SETTABLE))
    }

    fn read(options: &[SqlOption], mut reader: OptionReader) -> Result<Self, ParseError> {
        let mut set = Self::default();
        for option in options {
            let option = reader.known(option)?;
            match option.name {
                "auto_refresh_enabled" => set.auto_refresh_enabled = Some(option.boolean()?),
                "auto_refresh_interval_seconds" => {
                    set.auto_refresh_interval_seconds = Some(option.integer(1, INTERVAL_SECONDS_MAX)?);
                }
                "version" => set.version = Some(option.text(|_| true, "a version")?),
                "branch" => set.branch = Some(branch(&option)?),
                name => unreachable!("the reader knows no option {name}"),
            }
        }
        set.positions = reader.into_positions();
        Ok(set)
    }

    /// Returns the names of the set options that an expression column refuses.
    pub fn function_only(&self) -> Vec<&'static str> {
        let version = self.version.as_ref().map(|_| "version");
        let branch = self.branch.as_ref().map(|_| "branch");
        [version, branch].into_iter().flatten().collect()
    }

    /// Displays the options as ` WITH (…)`, or nothing without any.
    pub fn with_clause(&self) -> WithClause {
        WithClause(self.to_string())
    }
}

impl fmt::Display for ColumnOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |text: &String| Literal(text).to_string();
        let pairs = [
            ("auto_refresh_enabled", self.auto_refresh_enabled.map(|set| set.to_string())),
            ("auto_refresh_interval_seconds", self.auto_refresh_interval_seconds.map(|n| n.to_string())),
            ("version", self.version.as_ref().map(text)),
            ("branch", self.branch.as_ref().map(text)),
        ];
        let pairs = pairs.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        f.write_str(&join_pairs(pairs))
    }
}

/// The options of a materialized view.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ViewOptions {
    /// Whether the view is refreshed by itself.
    pub auto_refresh_enabled: Option<bool>,
    /// The least seconds to the next automatic refresh; fractions are allowed.
    pub auto_refresh_interval_seconds: Option<f64>,
    /// Where each option stands in the text.
    pub positions: OptionPositions,
}

impl ViewOptions {
    /// The names of all options.
    pub const SUPPORTED: &'static [&'static str] = &["auto_refresh_enabled", "auto_refresh_interval_seconds"];

    /// Reads the options.
    ///
    /// # Errors
    /// `UnknownOption`, `DuplicateOption` or `BadOptionValue`.
    pub fn from_options(options: &[SqlOption]) -> Result<Self, ParseError> {
        let mut reader = OptionReader::new("MATERIALIZED VIEW", Self::SUPPORTED);
        let mut set = Self::default();
        for option in options {
            let option = reader.known(option)?;
            match option.name {
                "auto_refresh_enabled" => set.auto_refresh_enabled = Some(option.boolean()?),
                "auto_refresh_interval_seconds" => {
                    let seconds = option.number(|n| n > 0.0, "a positive number")?;
                    set.auto_refresh_interval_seconds = Some(seconds);
                }
                name => unreachable!("the reader knows no option {name}"),
            }
        }
        set.positions = reader.into_positions();
        Ok(set)
    }

    /// Displays the options as ` WITH (…)`, or nothing without any.
    pub fn with_clause(&self) -> WithClause {
        WithClause(self.to_string())
    }
}

impl fmt::Display for ViewOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = [
            ("auto_refresh_enabled", self.auto_refresh_enabled.map(|set| set.to_string())),
            ("auto_refresh_interval_seconds", self.auto_refresh_interval_seconds.map(|n| n.to_string())),
        ];
        let pairs = pairs.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        f.write_str(&join_pairs(pairs))
    }
}
