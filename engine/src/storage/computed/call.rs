//! The version of a Function that fills a column, and how it is called: what `lancegate.function` holds.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a parameter of a Function takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Argument {
    /// A column, or the path of a field inside one.
    Column(String),
    /// The same value for every row.
    Literal {
        /// It, as a SQL expression without columns.
        literal: String,
    },
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Column(text) | Self::Literal { literal: text }) = self;
        f.write_str(text)
    }
}

/// FILTER, IGNORE NULLS and OVER: which rows a Function is called with. The others are NULL, and current.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Application {
    /// The predicate of the rows, as SQL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Whether rows with a NULL among the arguments are passed over, also where the parameter takes NULL.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_nulls: bool,
    /// Paths of columns; no call has rows of which these differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partition_by: Vec<String>,
    /// Paths of the columns that the filter reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub filter_reads: Vec<String>,
}

impl Application {
    /// Paths of the columns that are read besides the arguments.
    pub fn reads(&self) -> impl Iterator<Item = &String> {
        self.filter_reads.iter().chain(&self.partition_by)
    }
}

impl fmt::Display for Application {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(filter) = &self.filter {
            write!(f, " FILTER (WHERE {filter})")?;
        }
        if self.ignore_nulls {
            f.write_str(" IGNORE NULLS")?;
        }
        if !self.partition_by.is_empty() {
            write!(f, " OVER (PARTITION BY {})", self.partition_by.join(", "))?;
        }
        Ok(())
    }
}

/// The constants of one binding for `__init__` of a class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Initialization {
    /// The fields that were given, and their values as SQL.
    pub fields: Vec<(String, String)>,
    /// Standard base64 of an Arrow IPC stream: one row of all fields.
    pub row: String,
}

/// The version of a Function that fills a column, and what it is called with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionCall {
    /// Identity of the binding.
    pub binding_id: String,
    /// The schema that the Function is in, in the database of the table.
    pub namespace: Vec<String>,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: u64,
    /// SHA-256 of its definition.
    pub digest: String,
    /// Names of its parameters, in order.
    pub parameters: Vec<String>,
    /// What they take.
    pub arguments: Vec<Argument>,
    /// Which rows it is called with.
    #[serde(flatten)]
    pub application: Application,
    /// What the instances of a class are made with; `None` if the Function takes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialization: Option<Initialization>,
    /// Which output of the Function the column is; the columns of a binding are filled together.
    #[serde(default)]
    pub ordinal: u32,
    /// The field of the result that it takes; `$value` for a column that takes the whole result.
    #[serde(default = "whole_result")]
    pub result_field: String,
}

/// The result field of a column that takes all of it.
pub const WHOLE_RESULT: &str = "$value";

fn whole_result() -> String {
    WHOLE_RESULT.to_owned()
}

impl FunctionCall {
    /// Paths of the columns that are arguments, in the order of the parameters.
    pub fn columns(&self) -> impl Iterator<Item = &String> {
        self.arguments.iter().filter_map(|argument| match argument {
            Argument::Column(path) => Some(path),
            Argument::Literal { .. } => None,
        })
    }
}

impl fmt::Display for FunctionCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = self.initialization.iter().flat_map(|given| &given.fields);
        let named = given.map(|(field, literal)| format!("{field} => {literal}"));
        let arguments: Vec<String> = self.arguments.iter().map(ToString::to_string).chain(named).collect();
        write!(f, "{}({}){}", self.name, arguments.join(", "), self.application)
    }
}
