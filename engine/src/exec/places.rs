//! Folders in which a table is being made, deleted or adopted.
//!
//! Who is about to do one of these takes the place, so that no table is made in a folder
//! that is being deleted, no two in one, and none is adopted that has no name yet. A crash
//! frees all places; what it leaves in them is marked (see [`super::adopt`]).

use std::collections::HashSet;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};

use tokio::sync::Mutex;

/// The places that are taken.
#[derive(Debug, Default)]
pub(in crate::exec) struct Places {
    taken: Arc<StdMutex<HashSet<String>>>,
    /// Held by who adopts, so that another who finds the same folder waits for its record.
    pub(in crate::exec) adopting: Mutex<()>,
}

impl Places {
    /// Takes a place, unless somebody has it.
    pub(in crate::exec) fn take(&self, location: &str) -> Option<Place> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = taken.insert(location.to_owned());
        is_free.then(|| Place { location: location.to_owned(), taken: Arc::clone(&self.taken) })
    }
}

/// A folder that is taken for as long as this is kept.
#[derive(Debug)]
pub(crate) struct Place {
    location: String,
    taken: Arc<StdMutex<HashSet<String>>>,
}

impl Place {
    /// Returns where it is.
    pub(crate) fn location(&self) -> &str {
        &self.location
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.location);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_one_holders_until_it_is_dropped() {
        let places = Places::default();
        let first = places.take("a.lance");
        assert!(first.is_some() && places.take("a.lance").is_none() && places.take("b.lance").is_some());
        drop(first);
        assert!(places.take("a.lance").is_some());
    }
}
