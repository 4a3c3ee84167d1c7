//! Settings, transactions, prepared statements, cursors and channels, all as
//! PostgreSQL has them.
//!
//! Example: `SET LOCAL search_path TO "team$ml", public`

mod cursor;
mod setting;
mod transaction;

pub use cursor::{CloseCursor, DeclareCursor, Fetch, FetchDirection, Move};
pub use setting::{
    Deallocate, Discard, Execute, Listen, Prepare, Reset, Set, SetItem, SetScope, SetValue, Show, Unlisten, Vacuum,
};
pub use transaction::{
    Begin, Commit, IsolationLevel, Release, Rollback, RollbackTo, Savepoint, SetTransaction, TransactionModes,
};
