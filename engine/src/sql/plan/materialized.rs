//! CREATE, ALTER, DROP, DESCRIBE and REFRESH MATERIALIZED VIEW.
//!
//! Names in the query are looked up where the view is: in its schema, then in
//! `public`. So every refresh finds what the first one found, whoever asks.

use arrow::datatypes::{Field, Schema, SchemaRef};
use chrono::Utc;
use lancegate_auth::{Object, Privilege, Requirement};
use lancegate_catalog::{Table, TableId, TableKind, TableName};
use lancegate_sql::ast::{self, Wait};
use lancegate_sql::{ObjectName, ViewOptions};

use super::query::QueryPlan;
use super::tables::ensure_columns;
use super::{Plan, Planner};
use crate::error::{Result, SqlError};
use crate::exec::materialized::answer;
use crate::sql::resolve::object_of;
use crate::sql::types;
use crate::sqlstate::SqlState;
use crate::system::materialized_views;

/// A bound statement about materialized views.
#[derive(Debug, Clone)]
pub enum MaterializedPlan {
    /// CREATE MATERIALIZED VIEW.
    Create(Box<CreateMaterializedPlan>),
    /// ALTER MATERIALIZED VIEW … SET; `None` where IF EXISTS passed over it.
    Alter {
        /// The view.
        view: Option<Table>,
        /// What changes.
        options: ViewOptions,
    },
    /// DROP MATERIALIZED VIEW.
    Drop {
        /// The views that exist.
        views: Vec<Table>,
        /// Names that IF EXISTS passed over.
        missing: Vec<String>,
        /// Views that go with them.
        cascaded: Vec<Table>,
    },
    /// DESCRIBE MATERIALIZED VIEW.
    Describe {
        /// The view.
        view: Table,
        /// The columns of the answer.
        schema: SchemaRef,
    },
    /// REFRESH MATERIALIZED VIEW.
    Refresh(Box<RefreshMaterializedPlan>),
}

/// A bound CREATE MATERIALIZED VIEW.
#[derive(Debug, Clone)]
pub struct CreateMaterializedPlan {
    /// What the metadata store will say, but for the place of the files.
    pub record: Table,
    /// The query, bound once to check it.
    pub query: QueryPlan,
    /// The columns.
    pub schema: Schema,
    /// When it is refreshed by itself.
    pub options: ViewOptions,
    /// Whether an existing relation is no error.
    pub if_not_exists: bool,
    /// False after WITH NO DATA.
    pub with_data: bool,
    answer: SchemaRef,
}

/// A bound REFRESH MATERIALIZED VIEW.
#[derive(Debug, Clone)]
pub struct RefreshMaterializedPlan {
    /// The view.
    pub view: Table,
    /// Whether everything is computed again, also if nothing has changed.
    pub full: bool,
    /// The statement, for EXPLAIN JOB.
    pub statement: String,
    /// WAIT or NOWAIT.
    pub wait: Option<Wait>,
    answer: SchemaRef,
}

impl MaterializedPlan {
    /// Returns the columns of the answer, if it has rows.
    pub fn columns(&self) -> Option<&SchemaRef> {
        match self {
            Self::Create(create) => Some(&create.answer),
            Self::Refresh(refresh) => Some(&refresh.answer),
            Self::Describe { schema, .. } => Some(schema),
            Self::Alter { .. } | Self::Drop { .. } => None,
        }
    }

    /// Returns the command word of a change.
    pub fn writes(&self) -> Option<&'static str> {
        match self {
            Self::Create(_) => Some("CREATE MATERIALIZED VIEW"),
            Self::Alter { .. } => Some("ALTER MATERIALIZED VIEW"),
            Self::Drop { .. } => Some("DROP MATERIALIZED VIEW"),
            Self::Refresh(_) => Some("REFRESH MATERIALIZED VIEW"),
            Self::Describe { .. } => None,
        }
    }

    /// Returns what is needed, apart from what the query of a new view reads. What the
    /// query of an existing one reads is decided when its job reads it.
    pub fn requirements(&self) -> Vec<Requirement> {
        match self {
            Self::Create(create) => {
                let TableName { database, namespace, .. } = create.record.name.clone();
                let schema = Object::Namespace { database, path: namespace };
                vec![Requirement::new(Privilege::CreateMaterializedView, schema)]
            }
            Self::Alter { view, .. } => view.iter().map(owned).collect(),
            Self::Drop { views, .. } => views.iter().map(owned).collect(),
            Self::Describe { view, .. } => vec![Requirement::new(Privilege::Select, object_of(view))],
            Self::Refresh(refresh) => refresh.requirements(),
        }
    }
}

impl RefreshMaterializedPlan {
    /// Returns a refresh of a view.
    pub(crate) fn new(view: Table, full: bool, statement: String, wait: Option<Wait>) -> Self {
        Self { view, full, statement, wait, answer: answer::refreshed_schema() }
    }

    /// Returns what the caller must hold, and the job's user when it begins: UPDATE,
    /// which OWNERSHIP implies.
    pub fn requirements(&self) -> Vec<Requirement> {
        vec![Requirement::new(Privilege::Update, object_of(&self.view))]
    }
}

fn owned(view: &Table) -> Requirement {
    Requirement::new(Privilege::Ownership, object_of(view))
}

impl Planner {
    /// Binds CREATE MATERIALIZED VIEW.
    ///
    /// # Errors
    /// As SELECT and CREATE TABLE; 42P02 for parameters.
    pub(super) async fn plan_create_materialized(&self, create: &ast::CreateMaterializedView) -> Result<Plan> {
        let now = Utc::now();
        let record = Table {
            id: TableId::new(now),
            kind: TableKind::MaterializedView,
            name: self.creation_name(&create.view).await?,
            location: String::new(),
            definition: Some(create.query_text.clone()),
            comment: None,
            owner: self.caller.principal.user.as_str().to_owned(),
            created_at: now,
        };
        let query = self.bind_view_query(&record).await?;
        if !query.parameters.reported.is_empty() {
            return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, "materialized views cannot have parameters"));
        }
        super::views::ensure_no_temporary(&query)?;
        let schema = stored_schema(&query)?;
        Ok(Plan::Materialized(Box::new(MaterializedPlan::Create(Box::new(CreateMaterializedPlan {
            record,
            query,
            schema,
            options: create.options.clone(),
            if_not_exists: create.if_not_exists,
            with_data: create.with_data,
            answer: answer::created_schema(),
        })))))
    }

    /// Binds ALTER MATERIALIZED VIEW … SET.
    ///
    /// # Errors
    /// 42P01, 42809.
    pub(super) async fn plan_alter_materialized(&self, alter: &ast::AlterMaterializedView) -> Result<Plan> {
        let view = self.materialized(&alter.view, alter.if_exists).await?;
        Ok(Plan::Materialized(Box::new(MaterializedPlan::Alter { view, options: alter.options.clone() })))
    }

    /// Binds DROP MATERIALIZED VIEW.
    ///
    /// # Errors
    /// 42P01, 42809; 2BP01 after RESTRICT.
    pub(super) async fn plan_drop_materialized(&self, drop: &ast::DropMaterializedView) -> Result<Plan> {
        let (mut views, mut missing) = (Vec::new(), Vec::new());
        for name in &drop.views {
            match self.materialized(name, drop.if_exists).await? {
                Some(view) => views.push(view),
                None => missing.push(name.name.clone()),
            }
        }
        let cascaded = self.dependents(&views, drop.behavior).await?;
        Ok(Plan::Materialized(Box::new(MaterializedPlan::Drop { views, missing, cascaded })))
    }

    /// Binds DESCRIBE MATERIALIZED VIEW.
    ///
    /// # Errors
    /// 42P01, 42809.
    pub(super) async fn plan_describe_materialized(&self, name: &ObjectName) -> Result<Plan> {
        let view = self.existing_materialized(name).await?;
        let schema = materialized_views::schema();
        Ok(Plan::Materialized(Box::new(MaterializedPlan::Describe { view, schema })))
    }

    /// Binds REFRESH MATERIALIZED VIEW. The query is bound by the job, so that what is
    /// wrong with it by then is told the same way whether anybody waits or not.
    ///
    /// # Errors
    /// 42P01, 42809; 0A000 for a budget.
    pub(super) async fn plan_refresh_materialized(&self, refresh: &ast::RefreshMaterializedView) -> Result<Plan> {
        let options = &refresh.options;
        if let Some((name, _)) = options.pairs().into_iter().find(|(name, _)| *name != "full") {
            let message = format!("option \"{name}\" is not supported for REFRESH MATERIALIZED VIEW");
            return Err(SqlError::not_supported(message)
                .hint("A refresh of a view shares the memory of queries; leave the budget out.")
                .at(options.positions.get(name)));
        }
        let view = self.existing_materialized(&refresh.view).await?;
        let plan = RefreshMaterializedPlan::new(view, options.full.unwrap_or(false), refresh.to_string(), refresh.wait);
        Ok(Plan::Materialized(Box::new(MaterializedPlan::Refresh(Box::new(plan)))))
    }

    async fn existing_materialized(&self, name: &ObjectName) -> Result<Table> {
        self.materialized(name, false).await?.ok_or_else(|| missing(name))
    }

    async fn materialized(&self, name: &ObjectName, if_exists: bool) -> Result<Option<Table>> {
        match self.find(name).await? {
            Some(record) if record.kind == TableKind::MaterializedView => Ok(Some(record)),
            Some(record) => {
                let message = format!("\"{}\" is not a materialized view", name.name);
                let kind = if record.kind == TableKind::View { "view" } else { "table" };
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).detail(format!("It is a {kind}.")))
            }
            None if if_exists => Ok(None),
            None => Err(missing(name)),
        }
    }
}

fn missing(name: &ObjectName) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_TABLE, format!("materialized view \"{}\" does not exist", name.name))
}

/// Returns the columns in which the rows of a query are stored.
///
/// # Errors
/// 42701, 42602 for names that a table cannot have.
pub(crate) fn stored_schema(query: &QueryPlan) -> Result<Schema> {
    let fields: Vec<Field> = query
        .columns
        .fields()
        .iter()
        .map(|field| Field::new(field.name(), types::stored(field.data_type()), true))
        .collect();
    ensure_columns(fields.iter().map(|field| field.name().as_str()))?;
    if fields.is_empty() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "a materialized view must have at least one column"));
    }
    Ok(Schema::new(fields))
}
