//! `system.public.functions` and `system.public.grants`: what SHOW FUNCTIONS and SHOW GRANTS list, each for its reader.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::future::BoxFuture;
use lancegate_auth::Requirement;

use super::{SystemContext, SystemRelation};
use crate::error::Result;
use crate::exec::{grants, python};
use crate::sql::plan::functions::text_columns;
use crate::sql::plan::grants::grant_columns;

/// The versions of Functions of the connected database that the caller may use.
#[derive(Debug)]
pub struct Functions;

impl SystemRelation for Functions {
    fn name(&self) -> &'static str {
        "functions"
    }

    fn schema(&self) -> SchemaRef {
        text_columns()
    }

    fn requirements(&self) -> Vec<Requirement> {
        // Functions that the caller may not use are left out.
        Vec::new()
    }

    fn rows<'a>(&'a self, context: &'a SystemContext, limit: Option<usize>) -> BoxFuture<'a, Result<RecordBatch>> {
        Box::pin(async move {
            let caller = &context.caller;
            Ok(first(&python::listed(&context.engine, &caller.principal, &caller.database).await?, limit))
        })
    }
}

/// The grants that the caller may see.
#[derive(Debug)]
pub struct Grants;

impl SystemRelation for Grants {
    fn name(&self) -> &'static str {
        "grants"
    }

    fn schema(&self) -> SchemaRef {
        grant_columns()
    }

    fn requirements(&self) -> Vec<Requirement> {
        // Grants that the caller may not see are left out.
        Vec::new()
    }

    fn rows<'a>(&'a self, context: &'a SystemContext, limit: Option<usize>) -> BoxFuture<'a, Result<RecordBatch>> {
        Box::pin(async move { Ok(first(&grants::listed(&context.engine, &context.caller.principal).await?, limit)) })
    }
}

fn first(rows: &RecordBatch, limit: Option<usize>) -> RecordBatch {
    rows.slice(0, limit.map_or(rows.num_rows(), |limit| limit.min(rows.num_rows())))
}
