//! The primary key of a table, as Lance records it. Nothing enforces it.

use std::collections::HashMap;

use arrow::datatypes::Field;
use lance::Dataset;
use lance_core::datatypes::{LANCE_UNENFORCED_PRIMARY_KEY, LANCE_UNENFORCED_PRIMARY_KEY_POSITION};

/// What the key is called, if it was given a name; recorded in its first column.
const NAME_KEY: &str = "lancegate.primary_key";

/// Returns the name of a table's key: the one that it was given, or as PostgreSQL makes it.
pub fn name<'a>(mut fields: impl Iterator<Item = &'a HashMap<String, String>>, table: &str) -> String {
    let given = fields.find_map(|metadata| metadata.get(NAME_KEY));
    given.cloned().unwrap_or_else(|| format!("{table}_pkey"))
}

/// Returns a column as the first one of a key with a name.
pub fn named(field: &Field, name: &str) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert(NAME_KEY.to_owned(), name.to_owned());
    field.clone().with_metadata(metadata)
}

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
