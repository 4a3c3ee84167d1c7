//! A field inside a struct column as a column of its own: its path, its
//! declaration, a data file of it alone, and the commit that makes it visible.
//!
//! Lance stages and replaces whole top-level columns only: `write_columns`
//! refuses a nested field, and a data-replacement commit refuses one that no file
//! of the fragment holds yet. Writing the whole struct instead would copy the
//! siblings and lose an update of one of them that is committed meanwhile. But a
//! data file may hold any leaves, and the readers put the leaves of a struct
//! together from several files, a row's struct being NULL where it is in all of
//! them. So the leaf gets a file of its own, and the fragment is updated with
//! that file: an in-place column rewrite, which Lance checks against concurrent
//! writes of the same fragment.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Field as ArrowField;
use futures::{Stream, StreamExt};
use lance::Dataset;
use lance::dataset::CommitBuilder;
use lance::dataset::fragment::FileFragment;
use lance::dataset::transaction::{Operation, TransactionBuilder, UpdateMode};
use lance_core::datatypes::{Field, Schema, format_field_path, parse_field_path};
use lance_file::version::ConcreteFileVersion;
use lance_file::versions::create_writer;
use lance_file::writer::{FileWriter, FileWriterOptions};
use lance_table::format::{DataFile, Fragment};
use ulid::Ulid;

use super::StorageError;

/// The field id that Lance gives to a column of a file whose values another
/// file holds now.
const TOMBSTONE: i32 = -2;

/// Returns the names from the column inwards. A path is a top-level name as it
/// is, or a canonical Lance field path; a top-level name holds no dot.
pub fn parts(path: &str) -> Vec<String> {
    let quoted = path.contains('.') || (path.len() > 2 && path.starts_with('`') && path.ends_with('`'));
    let parsed = quoted.then(|| parse_field_path(path).ok()).flatten();
    parsed.unwrap_or_else(|| vec![path.to_owned()])
}

/// Returns the path made of these names, as [`parts`] takes it apart.
pub fn path_text(parts: &[&str]) -> String {
    match parts {
        [name] => (*name).to_owned(),
        parts => format_field_path(parts),
    }
}

/// Returns the field at a path.
pub fn field<'a>(schema: &'a Schema, path: &str) -> Option<&'a Field> {
    if let Some(column) = schema.fields.iter().find(|field| field.name == path) {
        return Some(column);
    }
    let parts = parts(path);
    let (root, inner) = parts.split_first()?;
    let root = schema.fields.iter().find(|field| field.name == *root)?;
    inner.iter().try_fold(root, |field, name| field.children.iter().find(|child| child.name == *name))
}

/// Returns the path of a field by its id.
pub fn path_of(schema: &Schema, id: i32) -> Option<String> {
    let ancestry = schema.field_ancestry_by_id(id)?;
    let names: Vec<&str> = ancestry.iter().map(|field| field.name.as_str()).collect();
    Some(path_text(&names))
}

/// Returns whether the field with this id is inside another one.
pub fn is_nested(schema: &Schema, id: i32) -> bool {
    schema.fields.iter().all(|field| field.id != id)
}

/// Refuses tables whose files cannot hold a field of a struct by itself.
///
/// # Errors
/// What Lance reports for a feature that it does not have.
pub fn ensure_supported(dataset: &Dataset) -> lance::Result<()> {
    match dataset.manifest().data_storage_format.lance_file_format() {
        ConcreteFileVersion::V1 | ConcreteFileVersion::V2_0 => Err(lance::Error::not_supported(
            "computed fields inside columns need a table in Lance's file format 2.1 or later",
        )),
        ConcreteFileVersion::V2_1 | ConcreteFileVersion::V2_2 | ConcreteFileVersion::V2_3 => Ok(()),
    }
}

/// Adds an empty nullable field to a struct, without touching data.
///
/// # Errors
/// [`StorageError::NoColumn`] if the struct is gone, and what Lance reports.
pub async fn add_field(dataset: &Dataset, parent: &str, added: &ArrowField) -> Result<Dataset, StorageError> {
    let mut schema = dataset.schema().clone();
    let missing = || StorageError::NoColumn { column: parent.to_owned() };
    let parent_id = field(&schema, parent).ok_or_else(missing)?.id;
    let parent_field = schema.mut_field_by_id(parent_id).ok_or_else(missing)?;
    parent_field.children.push(Field::try_from(added)?);
    schema.set_field_id(Some(dataset.manifest().max_field_id()));
    schema.validate()?;
    let operation = Operation::Merge {
        fragments: dataset.fragments().iter().cloned().collect(),
        schema,
        preserves_nullability: true,
    };
    let transaction = TransactionBuilder::new(dataset.version_id(), operation).build();
    Ok(CommitBuilder::new(Arc::new(dataset.clone())).execute(transaction).await?)
}

/// Writes new values of columns of a fragment to a data file that no version
/// references yet. `schema` holds top-level columns, whole or with one leaf.
///
/// # Errors
/// What the batches end with, and what Lance reports; nothing is left behind.
pub async fn write_columns(
    fragment: &FileFragment,
    batches: impl Stream<Item = lance::Result<RecordBatch>> + Send,
    schema: &Schema,
) -> lance::Result<DataFile> {
    let table = fragment.dataset().schema();
    let whole =
        |field: &Field| table.field_by_id(field.id).is_some_and(|stored| stored.children.len() == field.children.len());
    if schema.fields_pre_order().all(whole) {
        return Ok(fragment.write_columns(batches, schema).await?.1);
    }
    ensure_supported(fragment.dataset())?;
    let version = fragment.dataset().manifest().data_storage_format.lance_file_format();
    let name = format!("{}.lance", Ulid::new().to_string().to_ascii_lowercase());
    let store = fragment.dataset().object_store(None).await?;
    let path = fragment.dataset().data_dir().join(name.as_str());
    let mut writer = create_writer(version, store.create(&path).await?, schema.clone(), FileWriterOptions::default())?;
    match write_file(&mut writer, batches, fragment.physical_rows().await? as u64).await {
        Ok(size) => {
            let columns = writer.field_id_to_column_indices();
            let fields = columns.iter().map(|(field, _)| field.cast_signed()).collect();
            let indices = columns.iter().map(|(_, column)| column.cast_signed()).collect();
            Ok(DataFile::new(name, fields, indices, version, NonZero::new(size), None))
        }
        Err(error) => {
            writer.abort().await;
            drop(writer);
            // A file that nothing references is garbage also if this fails.
            if let Err(error) = store.delete(&path).await {
                tracing::debug!(%path, %error, "an abandoned data file was not removed");
            }
            Err(error)
        }
    }
}

async fn write_file(
    writer: &mut FileWriter,
    batches: impl Stream<Item = lance::Result<RecordBatch>> + Send,
    expected: u64,
) -> lance::Result<u64> {
    let mut batches = std::pin::pin!(batches);
    while let Some(batch) = batches.next().await {
        writer.write_batch(&batch?).await?;
    }
    let summary = writer.finish().await?;
    if summary.num_rows != expected {
        let message = format!("wrote {} rows for a fragment of {expected}", summary.num_rows);
        return Err(lance::Error::internal(message));
    }
    Ok(summary.size_bytes)
}

/// Returns the change that makes files of one nested field the values of their fragments.
pub fn rewrite<'a>(dataset: &Dataset, field_id: i32, files: impl Iterator<Item = (u64, &'a DataFile)>) -> Operation {
    let fragments: HashMap<u64, &Fragment> = dataset.iter_fragments().map(|fragment| (fragment.id, fragment)).collect();
    let mut modified = vec![field_id];
    let mut updated = Vec::new();
    for (id, file) in files {
        modified.extend(file.fields.iter());
        updated.extend(fragments.get(&id).map(|fragment| with_file(fragment, file)));
    }
    modified.sort_unstable();
    modified.dedup();
    Operation::Update {
        removed_fragment_ids: Vec::new(),
        updated_fragments: updated,
        new_fragments: Vec::new(),
        fields_modified: modified.into_iter().filter_map(|id| u32::try_from(id).ok()).collect(),
        compacted_sstables: Vec::new(),
        fields_for_preserving_frag_bitmap: Vec::new(),
        update_mode: Some(UpdateMode::RewriteColumns),
        inserted_rows_filter: None,
        updated_fragment_offsets: None,
    }
}

fn with_file(fragment: &Fragment, file: &DataFile) -> Fragment {
    let mut fragment = fragment.clone();
    for held in &mut fragment.files {
        if held.fields.iter().any(|field| file.fields.contains(field)) {
            let live = |field: &i32| if file.fields.contains(field) { TOMBSTONE } else { *field };
            held.fields = held.fields.iter().map(live).collect();
        }
    }
    // Lance takes a file without a living field for damage.
    fragment.files.retain(|held| held.fields.iter().any(|field| *field != TOMBSTONE));
    fragment.files.push(file.clone());
    fragment
}
