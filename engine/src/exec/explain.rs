//! EXPLAIN: the plan of a query as rows of text.

use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray};
use datafusion::common::format::ExplainFormat as Format;
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::logical_expr::{ExplainOption, LogicalPlan, LogicalPlanBuilder};
use lancegate_sql::ast::ExplainFormat;

use crate::error::{Result, SqlError};
use crate::exec::{Engine, Outcome, RowsTag, query};
use crate::session::{Session, StatementContext};
use crate::sql::parameters::Parameters;
use crate::sql::plan::query::QueryPlan;
use crate::sql::plan::{ExplainPlan, Plan};

/// Runs EXPLAIN. With ANALYZE the query runs, and its rows go nowhere.
pub(super) async fn explain(
    engine: &Engine,
    _session: &Session,
    plan: &ExplainPlan,
    parameters: Vec<ScalarValue>,
    ctx: &StatementContext,
) -> Result<Outcome> {
    let Some(explained) = query_of(&plan.plan) else {
        return Err(SqlError::not_supported("this statement has no plan"));
    };
    let values = explained.parameters.bind(parameters)?;
    let logical = explained.logical.clone();
    let logical = if values.is_empty() { logical } else { logical.with_param_values(ParamValues::from(values))? };
    if plan.options.format == Some(ExplainFormat::Json) && !plan.options.analyze {
        return json(plan, explained, &logical);
    }
    let format = match plan.options.format {
        Some(ExplainFormat::Tree) => Format::Tree,
        _ => Format::Indent,
    };
    let option = ExplainOption::default()
        .with_verbose(plan.options.verbose)
        .with_analyze(plan.options.analyze)
        .with_format(format);
    let logical = LogicalPlanBuilder::from(logical).explain_option_format(option)?.build()?;
    let explaining = QueryPlan { logical, parameters: Parameters::default(), ..explained.clone() };
    let stream = query::rows(engine, &explaining, Vec::new(), ctx).await?;
    if plan.options.format == Some(ExplainFormat::Json) {
        let rows = query::collect(stream).await?;
        let texts = rows.column_by_name("plan").and_then(|plan| plan.as_any().downcast_ref::<StringArray>());
        let lines: Vec<&str> = texts.map(|texts| texts.iter().flatten().collect()).unwrap_or_default();
        let document = serde_json::json!([{ "Plan": { "Text": lines.join("\n") } }]);
        return one_document(plan, &document);
    }
    let stream = query::described(stream, &plan.columns);
    Ok(Outcome::Rows { schema: Arc::clone(&plan.columns), stream, tag: RowsTag::Fixed("EXPLAIN".to_owned()) })
}

fn json(plan: &ExplainPlan, explained: &QueryPlan, logical: &LogicalPlan) -> Result<Outcome> {
    let optimized = explained.state.optimize(logical)?;
    let text = optimized.display_pg_json().to_string();
    let document = serde_json::from_str(&text).map_err(SqlError::internal)?;
    one_document(plan, &document)
}

fn one_document(plan: &ExplainPlan, document: &serde_json::Value) -> Result<Outcome> {
    let text = serde_json::to_string_pretty(document).map_err(SqlError::internal)?;
    let batch = RecordBatch::try_new(Arc::clone(&plan.columns), vec![Arc::new(StringArray::from(vec![text]))])?;
    Ok(Outcome::batch(batch, "EXPLAIN"))
}

fn query_of(plan: &Plan) -> Option<&QueryPlan> {
    match plan {
        Plan::Query(query) => Some(query),
        Plan::Insert(insert) => Some(&insert.source),
        Plan::Update(update) => Some(&update.rows),
        Plan::Delete(delete) => delete.rows.as_ref().map(|(rows, _)| rows),
        Plan::Merge(merge) => Some(&merge.rows),
        Plan::CreateTableAs(create) => Some(&create.source),
        _ => None,
    }
}
