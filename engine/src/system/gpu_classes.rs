//! `system.public.gpu_classes`: what SHOW GPU CLASSES lists: configured
//! hardware, not free capacity.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::future::BoxFuture;
use lancegate_auth::{Object, Privilege, Requirement};

use super::columns::{self, borrowed};
use super::{SystemContext, SystemRelation};
use crate::config::GpuClass;
use crate::error::Result;

type Column = columns::Column<GpuClass>;

/// Returns the columns.
pub fn columns() -> Vec<Column> {
    vec![
        Column::text("name", |class| borrowed(&class.name)).not_null(),
        Column::text("resource_name", |class| class.resource_name.as_deref().and_then(borrowed)),
        Column::text("gpu_model", |class| class.gpu_model.as_deref().and_then(borrowed)),
        Column::bigint("gpu_memory_bytes", |class| class.gpu_memory_bytes),
        Column::integer("max_gpu_count_per_worker", |class| {
            class.max_gpu_count_per_worker.and_then(|count| i32::try_from(count).ok())
        }),
        Column::bigint("cpu_millis", |class| class.cpu_millis),
        Column::bigint("memory_bytes", |class| class.memory_bytes),
        Column::bigint("ephemeral_storage_bytes", |class| class.ephemeral_storage_bytes),
    ]
}

/// Returns what reading the classes needs.
pub fn requirements() -> Vec<Requirement> {
    vec![Requirement::new(Privilege::Usage, Object::System)]
}

/// The relation: the legacy default class, then the named ones.
#[derive(Debug)]
pub struct GpuClasses;

impl SystemRelation for GpuClasses {
    fn name(&self) -> &'static str {
        "gpu_classes"
    }

    fn schema(&self) -> SchemaRef {
        columns::schema(&columns())
    }

    fn requirements(&self) -> Vec<Requirement> {
        requirements()
    }

    fn rows<'a>(&'a self, context: &'a SystemContext, limit: Option<usize>) -> BoxFuture<'a, Result<RecordBatch>> {
        Box::pin(async move {
            let classes = context.engine.gpu_classes();
            let shown = limit.map_or(classes.len(), |limit| limit.min(classes.len()));
            columns::batch(&columns(), &classes[..shown])
        })
    }
}
