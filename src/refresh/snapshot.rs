//! One computed column of one table at one version: everything that planning
//! and staging need, read off the manifest once.

use std::collections::HashMap;
use std::sync::Arc;

use futures::TryStreamExt;
use lance::Dataset;
use lance::dataset::fragment::FileFragment;
use lance_core::datatypes::Schema;
use roaring::RoaringBitmap;

use super::provenance::Definition;
use crate::storage::StorageError;
use crate::storage::computed::{self, ComputedColumn};
use crate::storage::signature::Signer;

/// See the module documentation.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The table at this version.
    pub dataset: Arc<Dataset>,
    /// The column.
    pub column: ComputedColumn,
    /// Field ids of the top-level columns that it reads, in the table's order.
    pub input_ids: Vec<i32>,
    /// What its values are computed by.
    pub definition: Definition,
}

impl Snapshot {
    /// Reads the column's declaration at this version.
    ///
    /// # Errors
    /// [`StorageError::NoColumn`] if the column or one of its inputs is gone,
    /// [`StorageError::Unsupported`] if the column is not a computed one.
    pub fn of(dataset: Arc<Dataset>, column: &str) -> Result<Self, StorageError> {
        let declared = computed::column(&dataset, column)?
            .ok_or_else(|| StorageError::Unsupported { what: format!("refresh of plain column \"{column}\"") })?;
        let mut input_ids =
            declared.inputs.iter().map(|path| input_id(&dataset, path)).collect::<Result<Vec<_>, _>>()?;
        input_ids.sort_unstable();
        input_ids.dedup();
        let definition = Definition::of(&declared, &input_ids);
        Ok(Self { dataset, column: declared, input_ids, definition })
    }

    /// The same column, by its field id, at another version.
    ///
    /// # Errors
    /// As [`Self::of`]; the column may have been dropped there.
    pub fn at(&self, dataset: Arc<Dataset>) -> Result<Self, StorageError> {
        let field = dataset.schema().field_by_id(self.column.field_id);
        let name = field
            .map(|field| field.name.clone())
            .ok_or_else(|| StorageError::NoColumn { column: self.column.name.clone() })?;
        Self::of(dataset, &name)
    }

    /// Returns the stable ids of a fragment's live rows by offset; nothing if the table has none.
    ///
    /// # Errors
    /// What Lance reports.
    pub async fn row_ids(&self, fragment_id: u64) -> Result<HashMap<u32, u64>, StorageError> {
        use arrow::array::AsArray;
        use arrow::datatypes::UInt64Type;
        if !self.dataset.manifest().uses_stable_row_ids() {
            return Ok(HashMap::new());
        }
        let fragments = self.dataset.iter_fragments().filter(|fragment| fragment.id == fragment_id).cloned().collect();
        let mut scanner = self.dataset.scan();
        scanner.with_fragments(fragments).with_row_id().with_row_address().project::<&str>(&[])?;
        let mut batches = scanner.try_into_stream().await?;
        let mut ids = HashMap::new();
        while let Some(batch) = batches.try_next().await? {
            let column = |name| batch.column_by_name(name).expect("asked for").as_primitive::<UInt64Type>().values();
            for (address, id) in column("_rowaddr").iter().zip(column("_rowid").iter()) {
                ids.insert(u32::try_from(address & u64::from(u32::MAX)).expect("masked to 32 bits"), *id);
            }
        }
        Ok(ids)
    }

    /// Signs where the inputs are.
    pub fn input_signer(&self) -> Signer<'_> {
        Signer::new(&self.dataset, &self.input_ids)
    }

    /// Signs where the values are.
    pub fn output_signer(&self) -> Signer<'_> {
        Signer::new(&self.dataset, &[self.column.field_id])
    }

    /// The Lance schema of the output column alone.
    pub fn output_schema(&self) -> Schema {
        self.dataset.schema().project_by_ids(&[self.column.field_id], true)
    }

    /// The Lance schema of the input columns, followed by the output if asked for.
    pub fn read_schema(&self, with_output: bool) -> Schema {
        let mut ids = self.input_ids.clone();
        ids.extend(with_output.then_some(self.column.field_id));
        self.dataset.schema().project_by_ids(&ids, true)
    }
}

/// Top-level columns are signed and read whole, nested inputs with them.
fn input_id(dataset: &Dataset, path: &str) -> Result<i32, StorageError> {
    let missing = || StorageError::NoColumn { column: path.to_owned() };
    let by_name = |name: &str| dataset.schema().fields.iter().find(|field| field.name == name).map(|field| field.id);
    if let Some(id) = by_name(path) {
        return Ok(id);
    }
    let parts = lance_core::datatypes::parse_field_path(path).map_err(|_| missing())?;
    parts.first().and_then(|root| by_name(root)).ok_or_else(missing)
}

/// Returns the physical offsets of a fragment's deleted rows.
///
/// # Errors
/// What reading the deletion file reports.
pub async fn deleted_rows(fragment: &FileFragment) -> Result<RoaringBitmap, StorageError> {
    let deleted = fragment.get_deletion_vector().await?;
    Ok(deleted.map(|deleted| deleted.iter().collect()).unwrap_or_default())
}
