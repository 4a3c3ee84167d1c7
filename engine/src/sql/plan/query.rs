//! Queries: the relations they name, their columns and their parameters.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::datatypes::{Field, SchemaRef};
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::common::TableReference;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::logical_expr::{Expr, LogicalPlan, TableSource, Volatility};
use datafusion::sql::planner::{NullOrdering, ParserOptions, PlannerContext, SqlToRel};
use futures::future::BoxFuture;
use lance::Dataset;
use lancegate_auth::{Privilege, Requirement, UserName};
use lancegate_catalog::{Table, TableKind};
use lancegate_sql::ObjectName;
use sqlparser::ast::{Spanned, Statement as Native};
use sqlparser::tokenizer::Location;

use super::{Plan, Planner};
use crate::arithmetic::checked_plan;
use crate::error::position;
use crate::error::query::in_text;
use crate::error::{Result, SqlError};
use crate::sql::parameters::{self, Parameters};
use crate::sql::resolve::{self, BoundTable, object_of};
use crate::sql::rewrite::Found;
use crate::sql::rewrite::keys::Keyed;
use crate::sql::rewrite::locking;
use crate::sql::rewrite::versions::{self, Versioned, Versions};
use crate::sql::state::PlannerState;
use crate::sql::{checks, functions, guard, labels, literals, multisets, rewrite, uuid};
use crate::sqlstate::SqlState;
use crate::storage::key;
use crate::storage::provider::{Columns, LanceTable};
use crate::system::{self, SYSTEM_DATABASE, SystemContext};

pub(crate) mod binder;
pub(crate) mod calls;
mod locks;
pub(crate) mod one_row;
mod origins;
pub(crate) mod registered;

use binder::Binder;
pub use locks::{Locking, RowLock};
use one_row::OneRow;
pub(crate) use origins::Origin;

/// Views over views, at most.
const VIEW_DEPTH_MAX: usize = 32;

/// A bound query.
#[derive(Debug, Clone)]
pub struct QueryPlan {
    /// The tree, parameters not yet filled in.
    pub logical: LogicalPlan,
    /// The columns as the client sees them.
    pub columns: SchemaRef,
    /// The parameters.
    pub parameters: Parameters,
    /// Everything that is read.
    pub reads: Vec<Read>,
    /// The state that the query was bound in and is planned with.
    pub state: Arc<PlannerState>,
    /// What its rows come from; `None` if it reads something that has no version.
    pub sources: Option<Vec<Origin>>,
    /// The version of the table that is changed, if one is.
    pub target: Option<Arc<Dataset>>,
    /// How a query that reads nothing is evaluated on the spot.
    pub one_row: Option<OneRow>,
    /// The locks that it takes before it reads.
    pub locking: Option<Box<Locking>>,
    /// What the plan was made from, if that can be compared with what is there
    /// later; otherwise it is used once.
    pub basis: Option<Basis>,
}

/// What a plan was made from.
#[derive(Debug, Clone)]
pub struct Basis {
    /// The settings of the session.
    revision: u64,
    /// The tables, under the names that were looked up.
    tables: Vec<(ObjectName, BoundTable)>,
}

/// Something that a query reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// What is needed for it.
    pub requirement: Requirement,
    /// Whose right counts: the caller's, or the owner's of the view that reads.
    pub on_behalf_of: Option<UserName>,
}

/// A relation that a statement names, ready to be bound.
#[derive(Clone)]
struct Loaded {
    source: Arc<dyn TableSource>,
    reads: Vec<Read>,
    is_table: bool,
    /// See [`QueryPlan::sources`].
    sources: Option<Vec<Origin>>,
    /// The version of the table that the statement changes.
    target: Option<Arc<Dataset>>,
    /// The newest version of a table, which can be looked up again.
    newest: Option<BoundTable>,
}

impl Planner {
    /// Binds a SELECT, VALUES, TABLE or WITH.
    ///
    /// # Errors
    /// What PostgreSQL answers for names and types that do not fit.
    pub(super) async fn plan_query(&self, statement: &Native) -> Result<Plan> {
        let mut query = statement.clone();
        let locked = locking::take(&mut query).map_err(|mistake| self.mistake_at(mistake.0, mistake.1))?;
        if locked.is_empty() {
            return Ok(Plan::Query(Box::new(self.bind_query(query).await?)));
        }
        let plan = self.bind_query(query.clone()).await?;
        Ok(Plan::Query(Box::new(self.with_locks(plan, query, locked).await?)))
    }

    /// Says where in the text an error is.
    fn mistake_at(&self, error: SqlError, at: Location) -> SqlError {
        error.at(position::of(&self.text, at.line, at.column))
    }

    /// Binds a query.
    ///
    /// # Errors
    /// As SELECT.
    pub(crate) async fn bind_query(&self, statement: Native) -> Result<QueryPlan> {
        self.bind(statement, &Scope::default()).await
    }

    /// Binds the rows of a change of `target`: a query that may name all stored
    /// columns of it, or the INSERT itself. `finish` makes of the bound tree
    /// what is written.
    ///
    /// # Errors
    /// As SELECT.
    pub(crate) async fn bind_change(
        &self,
        statement: Native,
        target: &ObjectName,
        finish: &Finish<'_>,
    ) -> Result<QueryPlan> {
        self.bind_change_with(statement, target, finish, None).await
    }

    /// Binds as [`Self::bind_change`] does; `given` is a relation that the statement
    /// itself gives, and that nobody needs a right for.
    ///
    /// # Errors
    /// As SELECT.
    pub(crate) async fn bind_change_with(
        &self,
        statement: Native,
        target: &ObjectName,
        finish: &Finish<'_>,
        given: Option<(&ObjectName, &Arc<dyn TableProvider>)>,
    ) -> Result<QueryPlan> {
        self.bind(statement, &Scope { target: Some(target), finish: Some(finish), given, ..Scope::default() }).await
    }

    /// Binds a query in which `name` is a relation that is not there yet, and that `needs` a privilege.
    ///
    /// # Errors
    /// As SELECT.
    pub(crate) async fn bind_over(
        &self,
        statement: Native,
        name: &ObjectName,
        (relation, needs): (&Arc<dyn TableProvider>, &Requirement),
    ) -> Result<QueryPlan> {
        self.bind(statement, &Scope { over: Some((name, relation, needs)), ..Scope::default() }).await
    }

    async fn bind(&self, mut statement: Native, scope: &Scope<'_>) -> Result<QueryPlan> {
        if scope.finish.is_some() {
            // A change is atomic, and computed again if others have changed its rows: it needs no locks.
            locking::take(&mut statement).map_err(|mistake| self.mistake_at(mistake.0, mistake.1))?;
        }
        if matches!(statement, Native::Query(_))
            && let Some(known) = rewrite::known::query(&self.text)
        {
            statement = known;
        }
        if matches!(statement, Native::Insert(_)) {
            rewrite::array::cast_parameters(&mut statement, &self.declared);
        }
        let reads_nothing = one_row::is_small(&statement);
        if !reads_nothing && let Some((error, at)) = checks::mistake(&statement) {
            return Err(self.mistake_at(error, at));
        }
        let found = rewrite::postgres(&mut statement)?;
        let shared = self.caller.state(self.engine.state());
        let mut registered = self.registered(shared, &statement).await?;
        if reads_nothing && registered.is_empty() {
            labels::apply(&mut statement);
            return self.to_plan((Arc::clone(shared), found), statement, HashMap::new(), scope);
        }
        let scope = &scope.at(versions::take(&mut statement)?);
        let columns = rewrite::system_columns(&statement);
        let loaded = self.load_relations(shared, &statement, &columns, scope).await?;
        if !columns.is_empty() {
            let is_table = |name: &sqlparser::ast::ObjectName| {
                ObjectName::from_native(name)
                    .is_some_and(|name| loaded.get(&reference(&name)).is_some_and(|relation| relation.is_table))
            };
            rewrite::hide_system_columns(&mut statement, &columns, is_table)?;
        }
        let keyed = |name: &sqlparser::ast::ObjectName| {
            let loaded = loaded.get(&reference(&ObjectName::from_native(name)?))?;
            let dataset = &loaded.newest.as_ref()?.dataset;
            let columns = loaded.source.schema().fields().iter().map(|field| field.name().clone()).collect();
            Some(Keyed { key: key::columns(dataset), columns })
        };
        rewrite::keys::complete_groups(&mut statement, &keyed);
        labels::apply(&mut statement);
        // `'t'::regclass` alone asks the catalog, too.
        let names_object = || loaded.is_empty() && rewrite::catalog::casts_to_object(&statement);
        let catalog_query = loaded.keys().any(is_catalog) || names_object();
        if !catalog_query {
            rewrite::names::arrays(&mut statement);
        }
        let mut state = self.statement_state(shared, &statement, catalog_query).await?;
        if !registered.is_empty() {
            registered.rename(&mut statement)?;
            let mut with_functions = state.to_state();
            registered.register(&mut with_functions);
            state = Arc::new(PlannerState::new(with_functions));
        }
        let mut plan = if catalog_query {
            self.bind_catalog_query((state, found), &statement, &columns, scope, loaded).await?
        } else {
            self.to_plan((state, found), statement, loaded, scope)?
        };
        if !registered.is_empty() {
            plan.logical = calls::lift(plan.logical)?;
        }
        plan.reads.extend(registered.requirements.into_iter().map(|requirement| scope.read(requirement)));
        Ok(plan)
    }

    /// Returns the state of the session, or a copy with the functions that only
    /// some statements call, because they answer from what is there now.
    async fn statement_state(
        &self,
        shared: &Arc<PlannerState>,
        statement: &Native,
        catalog_query: bool,
    ) -> Result<Arc<PlannerState>> {
        let of_relations = rewrite::table_functions(statement).iter().any(|name| system::functions::is_one(name));
        let of_objects = catalog_query || rewrite::catalog::calls_any(statement, &functions::of_objects::NAMES);
        let of_path = catalog_query || rewrite::catalog::calls_any(statement, &functions::of_path::NAMES);
        let of_privileges = rewrite::catalog::calls_any(statement, &functions::of_privileges::NAMES);
        let of_sequences = rewrite::catalog::calls_any(statement, &functions::sequences::NAMES);
        let of_backends = rewrite::catalog::calls_any(statement, &functions::of_backends::NAMES);
        let of_locks = rewrite::catalog::calls_any(statement, &functions::of_locks::NAMES);
        if !of_relations && !of_objects && !of_path && !of_privileges && !of_sequences && !of_backends && !of_locks {
            return Ok(Arc::clone(shared));
        }
        let mut state = shared.to_state();
        if of_path {
            for function in functions::of_path::functions(
                self.existing(self.caller.search_path()).await?,
                self.existing(self.caller.creation_path()).await?,
            ) {
                functions::register(&mut state, function);
            }
        }
        let context = self.system_context();
        system::functions::register(&mut state, &context);
        if of_backends {
            for function in functions::of_backends::functions(&context).await? {
                functions::register(&mut state, function);
            }
        }
        if of_locks {
            for function in functions::of_locks::functions(&context) {
                functions::register(&mut state, function);
            }
        }
        if of_sequences {
            for function in functions::sequences::functions(&context).await? {
                functions::register(&mut state, function);
            }
        }
        if of_objects {
            for function in functions::of_objects::functions(&context).await? {
                functions::register(&mut state, function);
            }
        }
        if catalog_query || of_privileges {
            for function in functions::of_privileges::functions(&context).await? {
                functions::register(&mut state, function);
            }
        }
        Ok(Arc::new(PlannerState::new(state)))
    }

    /// Catalog queries are rewritten further, and then name more relations. What
    /// still cannot be planned is tried in plainer words.
    async fn bind_catalog_query(
        &self,
        (state, found): (Arc<PlannerState>, Found),
        statement: &Native,
        columns: &BTreeSet<&'static str>,
        scope: &Scope<'_>,
        loaded: HashMap<TableReference, Loaded>,
    ) -> Result<QueryPlan> {
        let mut attempts =
            vec![rewrite::catalog::rewrite(statement.clone()), rewrite::catalog::without_subqueries(statement.clone())];
        if let Some(mut known) = rewrite::catalog::known_query(&self.text) {
            rewrite::postgres(&mut known)?;
            labels::apply(&mut known);
            attempts.push(known);
        }
        let mut first = None;
        for attempt in attempts {
            match self.bind_attempt((&state, found), attempt, columns, scope, loaded.clone()).await {
                Ok(plan) => return Ok(plan),
                Err(error) => {
                    tracing::debug!(%error, "binding a catalog query in other words");
                    first.get_or_insert(error);
                }
            }
        }
        Err(first.unwrap_or_else(|| SqlError::internal("a catalog query was not bound")))
    }

    async fn bind_attempt(
        &self,
        (state, found): (&Arc<PlannerState>, Found),
        statement: Native,
        columns: &BTreeSet<&'static str>,
        scope: &Scope<'_>,
        mut loaded: HashMap<TableReference, Loaded>,
    ) -> Result<QueryPlan> {
        loaded.extend(self.load_relations(state, &statement, columns, scope).await?);
        let plan = self.to_plan((Arc::clone(state), found), statement, loaded, scope)?;
        // Whether a correlated subquery can be planned shows in the optimizer.
        plan.state.optimize(&plan.logical)?;
        // Rows that a change returns are there once it has run.
        if plan.parameters.reported.is_empty() && scope.over.is_none() {
            plan.state.create_physical_plan(&plan.logical).await?;
        }
        Ok(plan)
    }

    fn to_plan(
        &self,
        (state, found): (Arc<PlannerState>, Found),
        statement: Native,
        loaded: HashMap<TableReference, Loaded>,
        scope: &Scope<'_>,
    ) -> Result<QueryPlan> {
        let inserts = matches!(statement, Native::Insert(_));
        let is_query = matches!(statement, Native::Query(_));
        let sources = loaded.iter().map(|(name, relation)| (name.clone(), Arc::clone(&relation.source))).collect();
        let settings = self.caller.settings.format_settings();
        let binder = Binder::new(&state, sources, &self.values, settings);
        let mut context =
            PlannerContext::new().with_prepare_param_data_types(parameters::declared_fields(&self.declared));
        let query = SqlToRel::new_with_options(&binder, parser_options());
        let logical = query
            .sql_statement_to_plan_with_context(statement, &mut context)
            .map_err(|error| in_text(&error, &self.text))?;
        let logical = multisets::counted(logical)?;
        let logical = match scope.finish {
            Some(finish) => finish(logical)?,
            None if is_query => literals::narrow(logical, &self.declared)?,
            None => logical,
        };
        let logical = functions::sum::of_integers(logical)?;
        let logical = guard::guard(logical, found)?;
        let logical = uuid::coerce(logical, &self.caller.settings.format_settings(), &state)?;
        let arguments = (binder.arguments(), !self.values.is_empty());
        let (logical, parameters) = parameters::resolve(logical, &self.declared, arguments)?;
        // Types are checked now, so that a statement that cannot run is refused
        // when it is prepared, as PostgreSQL does.
        let analyzed = state
            .analyzer()
            .execute_and_check(logical, state.config_options(), |_, _| {})
            .map_err(|error| in_text(&error, &self.text))?;
        let analyzed = checked_plan(analyzed)?;
        let columns = labels::visible(analyzed.schema().as_arrow());
        let mut used = binder.used();
        if inserts && !used.is_empty() {
            // The binder asks for the target first, to write to it.
            used.remove(0);
        }
        let mut reads: Vec<Read> = Vec::new();
        for name in used {
            for read in loaded.get(&name).map(|relation| relation.reads.as_slice()).unwrap_or_default() {
                if !reads.contains(read) {
                    reads.push(read.clone());
                }
            }
        }
        let of_session = Arc::ptr_eq(&state, self.caller.state(self.engine.state()));
        let sources =
            of_session.then(|| origins::of(loaded.values().map(|relation| relation.sources.as_deref()))).flatten();
        let target = loaded.values().find_map(|relation| relation.target.clone());
        let one_row = OneRow::of(&analyzed, parameters.reported.len(), &state)?;
        let basis = self.basis(&state, loaded);
        Ok(QueryPlan {
            logical: analyzed,
            columns,
            parameters,
            reads,
            state,
            sources,
            target,
            one_row,
            locking: None,
            basis,
        })
    }

    /// Returns what a plan was made from, if all of it can be looked up again.
    fn basis(&self, state: &Arc<PlannerState>, loaded: HashMap<TableReference, Loaded>) -> Option<Basis> {
        if !Arc::ptr_eq(state, self.caller.state(self.engine.state())) {
            return None;
        }
        let tables = loaded.into_iter().map(|(name, relation)| Some((name_of(&name), relation.newest?)));
        Some(Basis { revision: self.caller.settings.revision(), tables: tables.collect::<Option<_>>()? })
    }

    /// Returns whether a plan would be made from the same again: settings, and
    /// what the names stand for, each table at the same version.
    ///
    /// # Errors
    /// If the metadata store or the storage fails.
    pub(crate) async fn stands_on(&self, basis: &Basis) -> Result<bool> {
        if basis.revision != self.caller.settings.revision() {
            return Ok(false);
        }
        for (name, bound) in &basis.tables {
            let Some(record) = self.find(name).await?.filter(|record| *record == bound.record) else {
                return Ok(false);
            };
            if !Arc::ptr_eq(&self.open(record).await?.dataset, &bound.dataset) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn load_relations(
        &self,
        state: &PlannerState,
        statement: &Native,
        columns: &BTreeSet<&'static str>,
        scope: &Scope<'_>,
    ) -> Result<HashMap<TableReference, Loaded>> {
        let wrapped = datafusion::sql::parser::Statement::Statement(Box::new(statement.clone()));
        let mut loaded = HashMap::new();
        let functions = rewrite::table_functions(statement);
        for reference in state.resolve_table_references(&wrapped)? {
            if loaded.contains_key(&reference) {
                continue;
            }
            let name = name_of(&reference);
            if let Some(versioned) = scope.versions.get(&name.name) {
                loaded.insert(reference, self.load_version(versioned, columns, scope).await?);
            } else if let Some(relation) = self.load(&name, columns, scope).await? {
                loaded.insert(reference, relation);
            } else if !functions.contains(&name.name) {
                return Err(resolve::no_relation(&name).at(self.position_of(statement, &name)));
            }
        }
        Ok(loaded)
    }

    fn load<'a>(
        &'a self,
        name: &'a ObjectName,
        columns: &'a BTreeSet<&'static str>,
        scope: &'a Scope<'_>,
    ) -> BoxFuture<'a, Result<Option<Loaded>>> {
        Box::pin(async move {
            if let Some((_, relation)) = scope.given.filter(|(given, _)| *given == name) {
                let source = provider_as_source(Arc::clone(relation));
                let reads = Vec::new();
                return Ok(Some(Loaded { source, reads, is_table: false, sources: None, target: None, newest: None }));
            }
            if let Some((_, relation, needs)) = scope.over.filter(|(over, ..)| *over == name) {
                let source = provider_as_source(Arc::clone(relation));
                let reads = vec![scope.read(needs.clone())];
                return Ok(Some(Loaded { source, reads, is_table: false, sources: None, target: None, newest: None }));
            }
            if let Some(relation) = self.load_system(name).await? {
                return Ok(Some(relation));
            }
            let Some(record) = self.find(name).await? else { return Ok(None) };
            match record.kind {
                TableKind::View => self.load_view(record, scope).await.map(Some),
                TableKind::Table | TableKind::MaterializedView => {
                    let shown = match () {
                        () if scope.target == Some(name) => Columns::Stored,
                        () if columns.is_empty() => Columns::Visible,
                        () => Columns::WithSystem,
                    };
                    self.load_table(record, shown, columns, scope).await.map(Some)
                }
            }
        })
    }

    async fn load_table(
        &self,
        record: Table,
        shown: Columns,
        columns: &BTreeSet<&'static str>,
        scope: &Scope<'_>,
    ) -> Result<Loaded> {
        let bound = self.open(record).await?;
        let newest = Some(bound.clone());
        Ok(Loaded { newest, ..self.of_table(bound, shown, columns, scope) })
    }

    /// Loads a table as it was at a version.
    async fn load_version(
        &self,
        versioned: &Versioned,
        columns: &BTreeSet<&'static str>,
        scope: &Scope<'_>,
    ) -> Result<Loaded> {
        let newest = self.table(&versioned.table).await?;
        let bound = self.at_version(newest, &versioned.at).await?;
        let shown = if columns.is_empty() { Columns::Visible } else { Columns::WithSystem };
        Ok(self.of_table(bound, shown, columns, scope))
    }

    fn of_table(
        &self,
        bound: BoundTable,
        shown: Columns,
        columns: &BTreeSet<&'static str>,
        scope: &Scope<'_>,
    ) -> Loaded {
        let object = bound.object();
        let provider = LanceTable::new(Arc::clone(&bound.dataset), object.clone(), shown, columns);
        let reads = vec![scope.read(Requirement::new(Privilege::Select, object))];
        let target = (shown == Columns::Stored).then(|| Arc::clone(&bound.dataset));
        let sources = Some(vec![Origin::Table(bound)]);
        Loaded { source: provider_as_source(Arc::new(provider)), reads, is_table: true, sources, target, newest: None }
    }

    async fn load_view(&self, record: Table, scope: &Scope<'_>) -> Result<Loaded> {
        if scope.depth >= VIEW_DEPTH_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "views are nested too deeply"));
        }
        let text = record.definition.clone().unwrap_or_default();
        let query = self.view_query(&record, &text)?;
        // As in PostgreSQL, the rows below a view are read with its owner's rights.
        let owner = self.owner_of(&record).await?;
        let inner = Scope { depth: scope.depth + 1, on_behalf_of: owner, ..Scope::default() };
        let plan = Box::pin(self.for_view(&record).bind(query, &inner)).await?;
        let mut reads = vec![scope.read(Requirement::new(Privilege::Select, object_of(&record)))];
        reads.extend(plan.reads);
        let sources = if is_repeatable(&plan.logical)? { plan.sources } else { None };
        let sources = sources.map(|below| [below, vec![Origin::View(record)]].concat());
        let view = ViewTable::new(binder::renamed(plan.logical, &plan.columns)?, Some(text));
        let source = provider_as_source(Arc::new(view));
        Ok(Loaded { source, reads, is_table: false, sources, target: None, newest: None })
    }

    /// Binds the query of a view where the view is, whoever asks.
    ///
    /// # Errors
    /// As SELECT.
    pub(crate) async fn bind_view_query(&self, record: &Table) -> Result<QueryPlan> {
        let query = self.view_query(record, &record.definition.clone().unwrap_or_default())?;
        Box::pin(self.for_view(record).bind(query, &Scope::default())).await
    }

    /// Returns the query of a view.
    ///
    /// # Errors
    /// If its text does not parse any more.
    pub(super) fn view_query(&self, record: &Table, text: &str) -> Result<Native> {
        let mut parsed = lancegate_sql::parse(text, self.engine.limits())?;
        match (parsed.pop().map(|parsed| parsed.statement), parsed.is_empty()) {
            (Some(lancegate_sql::Statement::Query(query)), true) => Ok(*query),
            _ => Err(SqlError::internal(format!("the stored text of view {} is not a query", record.name))),
        }
    }

    /// Returns the planner of a system relation, for the columns of views.
    pub(crate) fn system(context: &SystemContext) -> Self {
        Self {
            engine: context.engine.clone(),
            caller: Arc::clone(&context.caller),
            text: Arc::from(""),
            declared: Arc::from([]),
            values: Arc::from([]),
            system: context.clone(),
        }
    }

    /// Returns the columns of a view.
    ///
    /// # Errors
    /// If its query does not bind any more.
    pub(crate) async fn view_columns(&self, record: &Table) -> Result<Vec<Field>> {
        let plan = self.bind_view_query(record).await?;
        Ok(plan.columns.fields().iter().map(|field| field.as_ref().clone()).collect())
    }

    /// Names in a view are looked up where the view is, not where the caller is.
    pub(super) fn for_view(&self, record: &Table) -> Self {
        let mut settings = self.caller.settings.clone();
        let schema = resolve::schema_of(&record.name.namespace);
        // A path that the store holds is a valid setting.
        let _ = settings.set("search_path", &format!("\"{schema}\", public"));
        let caller = Arc::new(self.caller.moved(record.name.database.clone(), settings));
        let system = SystemContext::new(self.engine.clone(), Arc::clone(&caller));
        Self { caller, text: Arc::from(""), system, ..self.clone() }
    }

    async fn owner_of(&self, record: &Table) -> Result<Option<UserName>> {
        let grants = self.caller.names.grants(self.engine.catalog()).await?;
        Ok(match grants.owner_of(&object_of(record)) {
            Some(lancegate_auth::Subject::User(user)) => Some(user.clone()),
            _ => UserName::parse(&record.owner).ok(),
        })
    }

    async fn load_system(&self, name: &ObjectName) -> Result<Option<Loaded>> {
        let context = self.system_context();
        let schema = name.schema.as_deref();
        let of_system = name.database.as_deref() == Some(SYSTEM_DATABASE)
            || name.database.is_none()
                && self.caller.database == SYSTEM_DATABASE
                && matches!(schema, None | Some("public"));
        if of_system
            && let Some(relation) = system::relations().into_iter().find(|relation| relation.name() == name.name)
        {
            let reads = relation.requirements().into_iter().map(|requirement| Read { requirement, on_behalf_of: None });
            let reads = reads.collect();
            let provider = system::LazyRelation::new(relation, context);
            return Ok(Some(Loaded {
                source: provider_as_source(Arc::new(provider)),
                reads,
                is_table: false,
                sources: None,
                target: None,
                newest: None,
            }));
        }
        let provider: Option<Arc<dyn TableProvider>> = match schema {
            Some("information_schema") => system::information_schema::table(&context, &name.name).await?,
            Some("pg_catalog") => system::pg_catalog::table(&context, &name.name).await?,
            None => system::pg_catalog::table(&context, &name.name).await?,
            Some(_) => None,
        };
        Ok(provider.map(|provider| Loaded {
            source: provider_as_source(provider),
            reads: Vec::new(),
            is_table: false,
            sources: None,
            target: None,
            newest: None,
        }))
    }

    /// Returns where a statement names a relation.
    fn position_of(&self, statement: &Native, name: &ObjectName) -> Option<usize> {
        let found = sqlparser::ast::visit_relations(statement, |relation| {
            if ObjectName::from_native(relation).as_ref() == Some(name) {
                return ControlFlow::Break(relation.span().start);
            }
            ControlFlow::Continue(())
        });
        let start = found.break_value()?;
        position::of(&self.text, start.line, start.column)
    }

    /// Returns where in the client's text a part of the statement is.
    pub(super) fn position(&self, part: &impl Spanned) -> Option<usize> {
        let start = part.span().start;
        position::of(&self.text, start.line, start.column)
    }

    /// Returns for whom system relations are made.
    pub(crate) fn system_context(&self) -> SystemContext {
        self.system.clone()
    }
}

/// Makes of a bound tree what is executed.
pub(crate) type Finish<'a> = dyn Fn(LogicalPlan) -> Result<LogicalPlan> + Send + Sync + 'a;

/// Where and for what a query is bound.
#[derive(Default)]
struct Scope<'a> {
    depth: usize,
    on_behalf_of: Option<UserName>,
    target: Option<&'a ObjectName>,
    finish: Option<&'a Finish<'a>>,
    /// A relation that has its rows later, and what is needed to read it.
    over: Option<(&'a ObjectName, &'a Arc<dyn TableProvider>, &'a Requirement)>,
    /// A relation of the statement's own.
    given: Option<(&'a ObjectName, &'a Arc<dyn TableProvider>)>,
    versions: Versions,
}

impl Scope<'_> {
    /// Returns the scope of a statement that reads tables at versions.
    fn at(&self, versions: Versions) -> Self {
        Self { on_behalf_of: self.on_behalf_of.clone(), versions, ..*self }
    }

    fn read(&self, requirement: Requirement) -> Read {
        Read { requirement, on_behalf_of: self.on_behalf_of.clone() }
    }
}

/// Returns the options that every binding uses.
pub(crate) fn parser_options() -> ParserOptions {
    ParserOptions::new()
        .with_parse_float_as_decimal(true)
        .with_enable_ident_normalization(true)
        .with_support_varchar_with_length(true)
        .with_map_string_types_to_utf8view(false)
        .with_collect_spans(true)
        .with_default_null_ordering(NullOrdering::NullsMax)
}

fn is_catalog(reference: &TableReference) -> bool {
    match reference.schema() {
        Some(schema) => matches!(schema, "pg_catalog" | "information_schema"),
        None => reference.table().starts_with("pg_"),
    }
}

fn name_of(reference: &TableReference) -> ObjectName {
    ObjectName {
        database: reference.catalog().map(str::to_owned),
        schema: reference.schema().map(str::to_owned),
        name: reference.table().to_owned(),
    }
}

fn reference(name: &ObjectName) -> TableReference {
    match (&name.database, &name.schema) {
        (Some(database), Some(schema)) => TableReference::full(database.as_str(), schema.as_str(), name.name.as_str()),
        (_, Some(schema)) => TableReference::partial(schema.as_str(), name.name.as_str()),
        (_, None) => TableReference::bare(name.name.as_str()),
    }
}

/// Returns whether a query over the same rows gives the same rows again: whether it
/// calls immutable functions only.
///
/// # Errors
/// Internal errors only.
pub(crate) fn is_repeatable(plan: &LogicalPlan) -> Result<bool> {
    let mut repeatable = true;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                let volatility = match expr {
                    Expr::ScalarFunction(call) => call.func.signature().volatility,
                    Expr::AggregateFunction(call) => call.func.signature().volatility,
                    Expr::WindowFunction(call) => call.fun.signature().volatility,
                    _ => Volatility::Immutable,
                };
                repeatable &= volatility == Volatility::Immutable;
                Ok(if repeatable { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
            })
        })
    })?;
    Ok(repeatable)
}

/// Returns a provider over rows that are there already.
pub(crate) fn memory_table(batch: arrow::array::RecordBatch) -> Result<Arc<dyn TableProvider>> {
    Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
}
