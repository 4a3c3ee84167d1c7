//! The small queries that a session has sent as text, with their plans.
//!
//! Clients repeat them: a pool sends `SELECT 1` before each use of a connection.
//! The text is then neither parsed nor bound again, as long as the plan holds.

use std::collections::HashMap;

use crate::pg::statement::{Known, Source};

/// Queries that are remembered; one more, and all are forgotten.
const QUERIES_MAX: usize = 32;
/// The longest text that is remembered.
const TEXT_BYTES_MAX: usize = 1_024;

/// The queries by their texts.
#[derive(Debug, Default)]
pub(in crate::pg) struct Recent(HashMap<Box<str>, (Source, Known)>);

impl Recent {
    /// Returns the statement of a text and its last plan.
    pub(in crate::pg) fn get(&self, text: &str) -> Option<(Source, Known)> {
        self.0.get(text).cloned()
    }

    /// Remembers a statement that is the whole of its text.
    pub(in crate::pg) fn put(&mut self, source: Source, plan: Known) {
        if source.text.len() > TEXT_BYTES_MAX {
            return;
        }
        if self.0.len() >= QUERIES_MAX && !self.0.contains_key(&*source.text) {
            self.0.clear();
        }
        self.0.insert(Box::from(&*source.text), (source, plan));
    }
}
