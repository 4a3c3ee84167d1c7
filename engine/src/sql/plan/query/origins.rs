//! What the rows of a query come from, so that it can be said later whether they would be the same.

use lancegate_catalog::Table;

use crate::sql::resolve::BoundTable;

/// Something that the rows of a query depend on.
#[derive(Debug, Clone)]
pub enum Origin {
    /// A table, or a materialized view, at the version that is read.
    Table(BoundTable),
    /// A view that the query reads through: with another query of its own the rows are others.
    View(Table),
}

impl Origin {
    /// Returns what the metadata store says of it.
    pub fn record(&self) -> &Table {
        match self {
            Self::Table(table) => &table.record,
            Self::View(view) => view,
        }
    }

    /// Returns the version that is read; a view has none.
    pub fn version(&self) -> Option<u64> {
        match self {
            Self::Table(table) => Some(table.dataset.version_id()),
            Self::View(_) => None,
        }
    }

    fn is(&self, other: &Self) -> bool {
        self.record().id == other.record().id && self.version() == other.version()
    }
}

/// Returns what all relations of a query come from, each once, ordered by name and version; `None` if one
/// has none.
pub(super) fn of<'a>(relations: impl Iterator<Item = Option<&'a [Origin]>>) -> Option<Vec<Origin>> {
    let mut origins: Vec<Origin> = Vec::new();
    for of_relation in relations {
        for origin in of_relation? {
            if !origins.iter().any(|known| known.is(origin)) {
                origins.push(origin.clone());
            }
        }
    }
    origins.sort_by(|a, b| (&a.record().name, a.version()).cmp(&(&b.record().name, b.version())));
    Some(origins)
}
