//! Bulk transfer.
//!
//! ```sql
//! COPY {<table> [(<column>, …)] | (<query>)} {FROM STDIN | TO STDOUT} [[WITH] (<option>, …)]
//! ```
//!
//! Example: `COPY docs (id, body) FROM STDIN (FORMAT csv, HEADER true)`

use std::fmt;

use sqlparser::ast as native;

/// `COPY`; always the native parser's `Statement::Copy`. A file or program as
/// the other end parses, so that the refusal can name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy(pub Box<native::Statement>);

impl Copy {
    /// Returns whether rows come from the client.
    pub fn is_from_client(&self) -> bool {
        let from = |statement: &native::Statement| match statement {
            native::Statement::Copy { to, target, .. } => !to && *target == native::CopyTarget::Stdin,
            _ => false,
        };
        from(&self.0)
    }
}

impl fmt::Display for Copy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The native form ends in a semicolon and the rows that would follow.
        let text = self.0.to_string();
        f.write_str(text.split_once(';').map_or(text.as_str(), |(statement, _)| statement))
    }
}
