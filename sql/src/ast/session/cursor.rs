//! Cursors.
//!
//! ```sql
//! DECLARE <name> [BINARY] [INSENSITIVE | ASENSITIVE] [[NO] SCROLL] CURSOR
//!     [{WITH | WITHOUT} HOLD] FOR <query>
//! {FETCH | MOVE} [<direction>] [FROM | IN] <name>
//! CLOSE {<name> | ALL}
//! <direction> ::= NEXT | PRIOR | FIRST | LAST | ABSOLUTE <n> | RELATIVE <n> | <n> | ALL
//!               | FORWARD [<n> | ALL] | BACKWARD [<n> | ALL]
//! ```
//!
//! Example: `DECLARE rows NO SCROLL CURSOR WITH HOLD FOR SELECT id FROM docs`

use std::fmt;

use sqlparser::ast as native;

use crate::name::Ident;

/// `DECLARE … CURSOR`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclareCursor {
    /// The cursor.
    pub name: Ident,
    /// Whether rows come in binary.
    pub binary: bool,
    /// Whether it can go backwards, when the text says.
    pub scroll: Option<bool>,
    /// Whether it outlives its transaction.
    pub hold: bool,
    /// The rows.
    pub query: Box<native::Query>,
    /// The query as it was written.
    pub query_text: String,
}

/// `FETCH`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// Which rows.
    pub direction: FetchDirection,
    /// The cursor.
    pub cursor: Ident,
}

/// `MOVE`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// Past which rows.
    pub direction: FetchDirection,
    /// The cursor.
    pub cursor: Ident,
}

/// `CLOSE`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloseCursor {
    /// The cursor; all of them without a name.
    pub cursor: Option<Ident>,
}

/// Where a cursor goes. Spellings that mean the same are the same value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FetchDirection {
    /// The next `n` rows; `NEXT` is one, zero rereads the present row.
    Forward(u64),
    /// All rows that follow.
    ForwardAll,
    /// The `n` rows before; `PRIOR` is one.
    Backward(u64),
    /// All rows before.
    BackwardAll,
    /// The row of this number; `FIRST` is 1, `LAST` is -1.
    Absolute(i64),
    /// The row this far away.
    Relative(i64),
}

impl fmt::Display for FetchDirection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forward(count) => write!(f, "FORWARD {count}"),
            Self::ForwardAll => f.write_str("FORWARD ALL"),
            Self::Backward(count) => write!(f, "BACKWARD {count}"),
            Self::BackwardAll => f.write_str("BACKWARD ALL"),
            Self::Absolute(row) => write!(f, "ABSOLUTE {row}"),
            Self::Relative(rows) => write!(f, "RELATIVE {rows}"),
        }
    }
}

impl fmt::Display for DeclareCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DECLARE {} ", self.name)?;
        if self.binary {
            f.write_str("BINARY ")?;
        }
        match self.scroll {
            None => {}
            Some(true) => f.write_str("SCROLL ")?,
            Some(false) => f.write_str("NO SCROLL ")?,
        }
        let hold = if self.hold { " WITH HOLD" } else { "" };
        write!(f, "CURSOR{hold} FOR {}", self.query_text)
    }
}

impl fmt::Display for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FETCH {} FROM {}", self.direction, self.cursor)
    }
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MOVE {} FROM {}", self.direction, self.cursor)
    }
}

impl fmt::Display for CloseCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cursor {
            None => f.write_str("CLOSE ALL"),
            Some(cursor) => write!(f, "CLOSE {cursor}"),
        }
    }
}
