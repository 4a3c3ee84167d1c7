//! The primary key of a table, as Lance records it. Nothing enforces it.

use arrow::datatypes::Field;
use lance::Dataset;
use lance_core::datatypes::{LANCE_UNENFORCED_PRIMARY_KEY, LANCE_UNENFORCED_PRIMARY_KEY_POSITION};

/// Returns the columns of the key in order; none if the table records no key.
pub fn columns(dataset: &Dataset) -> Vec<String> {
    dataset.schema().unenforced_primary_key().into_iter().map(|field| field.name.clone()).collect()
}

/// Returns the metadata of a column that is at `position` of the key, counted from 1.
pub fn entries(position: usize) -> [(String, String); 2] {
    [
        (LANCE_UNENFORCED_PRIMARY_KEY.to_owned(), "true".to_owned()),
        (LANCE_UNENFORCED_PRIMARY_KEY_POSITION.to_owned(), position.to_string()),
    ]
}

/// Returns a column as the one at `position` of the key, counted from 1. It takes no NULL.
pub fn part(field: &Field, position: usize) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.extend(entries(position));
    field.clone().with_nullable(false).with_metadata(metadata)
}
