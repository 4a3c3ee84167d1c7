//! One computed column of one table at one version: everything that planning
//! and staging need, read off the manifest once.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use futures::TryStreamExt;
use lance::Dataset;
use lance::dataset::fragment::FileFragment;
use lance_core::datatypes::Schema;
use roaring::RoaringBitmap;

use super::provenance::Definition;
use crate::storage::computed::{self, ComputedColumn};
use crate::storage::signature::Signer;
use crate::storage::{StorageError, nested};

/// See the module documentation.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The table at this version.
    pub dataset: Arc<Dataset>,
    /// The column; of a Function with several outputs the first.
    pub column: ComputedColumn,
    /// The columns that are computed together, in the order of the outputs.
    outputs: Vec<ComputedColumn>,
    /// Their field ids.
    pub output_ids: Vec<i32>,
    /// Field ids of the columns that it reads, in the table's order: top-level
    /// columns, or fields of the column that it is itself a field of.
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
        let outputs = computed::outputs(&dataset, &declared)?;
        let declared = outputs.first().cloned().unwrap_or(declared);
        let output_ids = outputs.iter().map(|output| output.field_id).collect();
        let mut input_ids =
            declared.inputs.iter().map(|path| input_id(&dataset, &declared, path)).collect::<Result<Vec<_>, _>>()?;
        input_ids.sort_unstable();
        input_ids.dedup();
        let definition = Definition::of(&declared, &input_ids);
        Ok(Self { dataset, column: declared, outputs, output_ids, input_ids, definition })
    }

    /// The same column, by its field id, at another version.
    ///
    /// A restore takes field ids back, and the next column gets one of them. So a
    /// column of another name that is computed by something else, or not at all,
    /// is another one.
    ///
    /// # Errors
    /// As [`Self::of`]; the column may have been dropped there.
    pub fn at(&self, dataset: Arc<Dataset>) -> Result<Self, StorageError> {
        let gone = || StorageError::NoColumn { column: self.column.name.clone() };
        let name = nested::path_of(dataset.schema(), self.column.field_id).ok_or_else(gone)?;
        if computed::column(&dataset, &name)?.is_none() {
            return Err(gone());
        }
        let there = Self::of(dataset, &name)?;
        if name != self.column.name && there.definition != self.definition {
            return Err(gone());
        }
        Ok(there)
    }

    /// Whether the column has this definition at another version, too.
    ///
    /// # Errors
    /// As [`Self::at`].
    pub fn is_defined_so_at(&self, dataset: &Dataset) -> Result<bool, StorageError> {
        Ok(self.at(Arc::new(dataset.clone()))?.definition == self.definition)
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

    /// Whether a field is an output, or inside one.
    pub fn holds_output(&self, id: i32) -> bool {
        let ancestry = self.dataset.schema().field_ancestry_by_id(id).unwrap_or_default();
        ancestry.iter().any(|field| self.output_ids.contains(&field.id))
    }

    /// Signs where the inputs are.
    pub fn input_signer(&self) -> Signer<'_> {
        Signer::new(&self.dataset, &self.input_ids)
    }

    /// Signs where the values are.
    pub fn output_signer(&self) -> Signer<'_> {
        Signer::new(&self.dataset, &self.output_ids)
    }

    /// The Lance schema of the output columns alone.
    pub fn output_schema(&self) -> Schema {
        self.dataset.schema().project_by_ids(&self.output_ids, true)
    }

    /// The output columns, in the order of the outputs.
    pub fn outputs(&self) -> &[ComputedColumn] {
        &self.outputs
    }

    /// The names of the output columns, in the order of the outputs.
    pub fn output_names(&self) -> Vec<String> {
        self.outputs.iter().map(|output| output.name.clone()).collect()
    }

    /// The type of the values that are computed: that of the column, or a struct with a field for each of several.
    pub fn value_type(&self) -> DataType {
        match self.outputs.as_slice() {
            [_] => self.column.data_type.clone(),
            outputs => {
                let field = |output: &ComputedColumn| Field::new(&output.name, output.data_type.clone(), true);
                DataType::Struct(outputs.iter().map(field).collect())
            }
        }
    }

    /// The Lance schema of the input columns, followed by the output if asked for.
    pub fn read_schema(&self, with_output: bool) -> Schema {
        let mut ids = self.input_ids.clone();
        ids.extend(self.output_ids.iter().filter(|_| with_output));
        self.dataset.schema().project_by_ids(&ids, true)
    }

    /// The Lance schema of what staging reads. A field inside a column is written
    /// with the NULLs of what it is in, which its siblings know.
    pub fn stage_schema(&self, with_output: bool) -> Schema {
        let schema = self.dataset.schema();
        let ancestry = schema.field_ancestry_by_id(self.column.field_id).unwrap_or_default();
        let Some(parent) = ancestry.iter().rev().nth(1) else { return self.read_schema(with_output) };
        let mut ids = self.input_ids.clone();
        ids.push(parent.id);
        schema.project_by_ids(&ids, true)
    }

    /// The paths of the columns that are read, the output last if asked for.
    pub fn read_paths(&self, with_output: bool) -> Vec<String> {
        let ids = self.input_ids.iter().chain(self.output_ids.iter().filter(|_| with_output)).copied();
        ids.filter_map(|id| nested::path_of(self.dataset.schema(), id)).collect()
    }
}

/// Top-level columns are signed and read whole, nested inputs with them, except
/// for the siblings of the output: their column holds the output, too.
fn input_id(dataset: &Dataset, output: &ComputedColumn, path: &str) -> Result<i32, StorageError> {
    let missing = || StorageError::NoColumn { column: path.to_owned() };
    let schema = dataset.schema();
    let (input, output_path) = (nested::parts(path), nested::parts(&output.name));
    if output_path.starts_with(&input) {
        return Err(StorageError::Cycle { column: output.name.clone() });
    }
    let field = nested::field(schema, path).ok_or_else(missing)?;
    if output_path.len() > 1 && input.first() == output_path.first() {
        return Ok(field.id);
    }
    let ancestry = schema.field_ancestry_by_id(field.id).unwrap_or_default();
    ancestry.first().map(|root| root.id).ok_or_else(missing)
}

/// Returns the physical offsets of a fragment's deleted rows.
///
/// # Errors
/// What reading the deletion file reports.
pub async fn deleted_rows(fragment: &FileFragment) -> Result<RoaringBitmap, StorageError> {
    let deleted = fragment.get_deletion_vector().await?;
    Ok(deleted.map(|deleted| deleted.iter().collect()).unwrap_or_default())
}
