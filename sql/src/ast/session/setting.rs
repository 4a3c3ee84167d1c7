//! Settings, prepared statements, channels and upkeep.
//!
//! ```sql
//! SET [SESSION | LOCAL] <name> {TO | =} {<value>, … | DEFAULT}
//! SET [SESSION | LOCAL] TIME ZONE {<value> | LOCAL | DEFAULT}
//! SET NAMES '<encoding>'
//! SHOW {<name> | ALL | TIME ZONE | TRANSACTION ISOLATION LEVEL}
//! RESET {<name> | ALL}
//! DISCARD {ALL | PLANS | SEQUENCES | TEMP}
//! PREPARE <name> [(<type>, …)] AS <statement>
//! EXECUTE <name> [(<argument>, …)]
//! DEALLOCATE [PREPARE] {<name> | ALL}
//! LISTEN <channel>
//! UNLISTEN {<channel> | *}
//! {VACUUM | ANALYZE} [(…)] [<table>, …]
//! ```
//!
//! Example: `PREPARE by_id (bigint) AS SELECT body FROM docs WHERE id = $1`

use std::fmt;

use sqlparser::ast as native;

use crate::ast::Statement;
use crate::name::{Ident, Literal, ObjectName, Quoted, write_separated};

/// `SET`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    /// How long the value lasts.
    pub scope: SetScope,
    /// The setting, lower case; dotted names keep their dots.
    pub name: String,
    /// The new value.
    pub value: SetValue,
}

/// How long a setting lasts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum SetScope {
    /// Until the session ends.
    #[default]
    Session,
    /// Until the transaction ends.
    Local,
}

/// The value of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetValue {
    /// What it was when the session started.
    Default,
    /// One item, or several for a list; at least one.
    Items(Vec<SetItem>),
}

impl SetValue {
    /// Returns the value as one text: items joined by `, `, without quotes.
    /// `None` stands for the default.
    pub fn to_text(&self) -> Option<String> {
        match self {
            Self::Default => None,
            Self::Items(items) => Some(items.iter().map(SetItem::as_str).collect::<Vec<_>>().join(", ")),
        }
    }

    /// Returns the value of a list of identifiers such as `search_path`: items
    /// joined by `, `, each quoted where a name has to be.
    pub fn to_identifier_list(&self) -> Option<String> {
        match self {
            Self::Default => None,
            Self::Items(items) => {
                Some(items.iter().map(|item| Quoted(item.as_str()).to_string()).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// One item of a setting's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetItem {
    /// A word, folded unless it was quoted.
    Word(String),
    /// A string.
    String(String),
    /// A number with its sign.
    Number(String),
}

impl SetItem {
    /// Returns the item without quotes.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Word(text) | Self::String(text) | Self::Number(text) => text,
        }
    }
}

/// `SHOW` of settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Show {
    /// Every setting.
    All,
    /// One setting, lower case.
    Setting(String),
}

/// `RESET`
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reset {
    /// Every setting.
    All,
    /// One setting, lower case.
    Setting(String),
}

/// `DISCARD`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Discard {
    /// Everything of the session.
    All,
    /// Cached plans.
    Plans,
    /// Cached sequence values.
    Sequences,
    /// Temporary tables.
    Temp,
}

impl Discard {
    /// Returns the keyword.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "ALL",
            Self::Plans => "PLANS",
            Self::Sequences => "SEQUENCES",
            Self::Temp => "TEMP",
        }
    }
}

/// `PREPARE`
#[derive(Debug, Clone, PartialEq)]
pub struct Prepare {
    /// The prepared statement.
    pub name: Ident,
    /// The parameters' types, as far as they are given.
    pub types: Vec<native::DataType>,
    /// What is prepared.
    pub statement: Box<Statement>,
    /// The prepared text.
    pub text: String,
}

/// `EXECUTE`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execute {
    /// The prepared statement.
    pub name: Ident,
    /// The parameters' values.
    pub arguments: Vec<native::Expr>,
}

/// `DEALLOCATE`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deallocate {
    /// The prepared statement; all of them without a name.
    pub name: Option<Ident>,
}

/// `LISTEN`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// The channel.
    pub channel: Ident,
}

/// `UNLISTEN`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlisten {
    /// The channel; all of them without a name.
    pub channel: Option<Ident>,
}

/// `VACUUM` and `ANALYZE`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vacuum {
    /// Whether storage is reclaimed.
    pub vacuum: bool,
    /// Whether statistics are collected.
    pub analyze: bool,
    /// Whether everything is rewritten.
    pub full: bool,
    /// Whether it says what it does.
    pub verbose: bool,
    /// The tables; all of them without any.
    pub tables: Vec<ObjectName>,
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scope = if self.scope == SetScope::Local { "LOCAL " } else { "" };
        write!(f, "SET {scope}")?;
        write_setting(f, &self.name)?;
        f.write_str(" TO ")?;
        match &self.value {
            SetValue::Default => f.write_str("DEFAULT"),
            SetValue::Items(items) => write_separated(f, items, ", "),
        }
    }
}

impl fmt::Display for SetItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => Quoted(word).fmt(f),
            Self::String(text) => Literal(text).fmt(f),
            Self::Number(number) => f.write_str(number),
        }
    }
}

impl fmt::Display for Show {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SHOW ")?;
        match self {
            Self::All => f.write_str("ALL"),
            Self::Setting(name) => write_setting(f, name),
        }
    }
}

impl fmt::Display for Reset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RESET ")?;
        match self {
            Self::All => f.write_str("ALL"),
            Self::Setting(name) => write_setting(f, name),
        }
    }
}

impl fmt::Display for Discard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DISCARD {}", self.as_str())
    }
}

impl fmt::Display for Prepare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PREPARE {}", self.name)?;
        if !self.types.is_empty() {
            f.write_str(" (")?;
            write_separated(f, &self.types, ", ")?;
            f.write_str(")")?;
        }
        write!(f, " AS {}", self.text)
    }
}

impl fmt::Display for Execute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EXECUTE {}", self.name)?;
        if self.arguments.is_empty() {
            return Ok(());
        }
        f.write_str(" (")?;
        write_separated(f, &self.arguments, ", ")?;
        f.write_str(")")
    }
}

impl fmt::Display for Deallocate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            None => f.write_str("DEALLOCATE ALL"),
            Some(name) => write!(f, "DEALLOCATE {name}"),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LISTEN {}", self.channel)
    }
}

impl fmt::Display for Unlisten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.channel {
            None => f.write_str("UNLISTEN *"),
            Some(channel) => write!(f, "UNLISTEN {channel}"),
        }
    }
}

impl fmt::Display for Vacuum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.vacuum { "VACUUM" } else { "ANALYZE" })?;
        let options = [("FULL", self.full), ("VERBOSE", self.verbose), ("ANALYZE", self.vacuum && self.analyze)];
        let set: Vec<&str> = options.into_iter().filter(|(_, set)| *set).map(|(name, _)| name).collect();
        if !set.is_empty() {
            write!(f, " ({})", set.join(", "))?;
        }
        if self.tables.is_empty() {
            return Ok(());
        }
        f.write_str(" ")?;
        write_separated(f, &self.tables, ", ")
    }
}

/// Writes a setting's name; the parts of a dotted name are quoted apart.
fn write_setting(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    write_separated(f, name.split('.').map(Quoted), ".")
}
