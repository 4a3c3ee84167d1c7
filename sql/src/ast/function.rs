//! Functions: code that fills columns.
//!
//! ```sql
//! CREATE FUNCTION <name> (<parameter> <arrow type> [NOT NULL], …) RETURNS <arrow type>
//!     LANGUAGE python AS '<source>' [WITH (<option> = <value>, …)]
//! CREATE FUNCTION <name> FROM '<registration JSON>' [WITH (wait = <boolean>)]
//! ALTER FUNCTION <name> SET (<option> = <value>, …)
//! DROP FUNCTION [IF EXISTS] <name> [WITH (version = '<version>', cascade = <boolean>)]
//! ```
//!
//! Example: `CREATE FUNCTION twice (x int64 NOT NULL) RETURNS int64 LANGUAGE python AS 'def twice(x): return 2 * x'`

use std::fmt;

use crate::name::{Ident, Literal, ObjectName, write_separated};
use crate::options::{SqlOption, write_with};

/// `CREATE FUNCTION`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateFunction {
    /// The Function.
    pub name: ObjectName,
    /// Where its definition comes from.
    pub definition: FunctionDefinition,
    /// The options of the `WITH` list; known names, each at most once.
    pub options: Vec<SqlOption>,
}

/// Where a Function's definition comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FunctionDefinition {
    /// Source code in the statement.
    Source(FunctionBody),
    /// A registration document, JSON.
    Registration(String),
}

/// A Function whose source is in the statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionBody {
    /// The parameters in order.
    pub parameters: Vec<FunctionParameter>,
    /// The Arrow type of the result, as written.
    pub returns: String,
    /// The language, lower case; always `python`.
    pub language: String,
    /// The source code.
    pub source: String,
}

/// A parameter of a Function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionParameter {
    /// Its name.
    pub name: Ident,
    /// Its Arrow type, as written.
    pub data_type: String,
    /// Whether it takes nulls.
    pub nullable: bool,
}

/// `ALTER FUNCTION … SET (…)`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterFunction {
    /// The Function.
    pub name: ObjectName,
    /// What is changed; at least one.
    pub options: Vec<SqlOption>,
}

/// `DROP FUNCTION`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropFunction {
    /// The Function.
    pub name: ObjectName,
    /// Whether a missing Function is no error.
    pub if_exists: bool,
    /// The version to drop.
    pub version: Option<String>,
    /// Whether a version that columns use is dropped too.
    pub cascade: bool,
}

impl fmt::Display for CreateFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CREATE FUNCTION {}", self.name)?;
        match &self.definition {
            FunctionDefinition::Registration(json) => write!(f, " FROM {}", Literal(json))?,
            FunctionDefinition::Source(body) => write!(f, " {body}")?,
        }
        write_with(f, &self.options)
    }
}

impl fmt::Display for FunctionBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        write_separated(f, &self.parameters, ", ")?;
        write!(f, ") RETURNS {} LANGUAGE {} AS {}", self.returns, self.language, Literal(&self.source))
    }
}

impl fmt::Display for FunctionParameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let null = if self.nullable { "" } else { " NOT NULL" };
        write!(f, "{} {}{null}", self.name, self.data_type)
    }
}

impl fmt::Display for AlterFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ALTER FUNCTION {} SET (", self.name)?;
        write_separated(f, &self.options, ", ")?;
        f.write_str(")")
    }
}

impl fmt::Display for DropFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DROP FUNCTION ")?;
        if self.if_exists {
            f.write_str("IF EXISTS ")?;
        }
        write!(f, "{}", self.name)?;
        match (&self.version, self.cascade) {
            (None, false) => Ok(()),
            (None, true) => f.write_str(" WITH (cascade = true)"),
            (Some(version), false) => write!(f, " WITH (version = {})", Literal(version)),
            (Some(version), true) => {
                write!(f, " WITH (version = {}, cascade = true)", Literal(version))
            }
        }
    }
}
