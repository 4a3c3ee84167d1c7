//! Options in parentheses: `WITH (<name> = <value>, …)` and `SET (…)`.
//!
//! Names are case-insensitive, values may be bare or quoted, an option may be
//! given once. The typed sets own their names and ranges; REST builds them from
//! the same pairs and so refuses the same things with the same words.

mod column;
mod list;
mod refresh;
mod value;

pub use column::{ColumnOptions, ViewOptions};
pub use list::OptionPositions;
pub use refresh::{ErrorPolicy, RefreshOptions, RefreshViewOptions};
pub use value::{OptionValue, SqlOption, WithClause};

pub(crate) use list::{duplicate_option as duplicate, unknown_option as unknown};
pub(crate) use value::write_with;
