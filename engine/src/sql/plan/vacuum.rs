//! Binds VACUUM and ANALYZE.

use lancegate_auth::{Privilege, Requirement};
use lancegate_catalog::TableKind;
use lancegate_sql::ast::Vacuum;

use crate::error::Result;
use crate::sql::plan::{Plan, Planner};
use crate::sql::resolve::{BoundTable, no_relation, object_of};

/// A bound VACUUM or ANALYZE.
#[derive(Debug, Clone)]
pub struct VacuumPlan {
    /// The statement.
    pub statement: Vacuum,
    /// The tables that are named, or all that the caller owns in the connected database.
    pub tables: Vec<BoundTable>,
    /// What is named and is no table.
    pub(crate) skipped: Vec<String>,
}

impl VacuumPlan {
    /// Returns what the caller must hold: as for other changes of how a table is stored.
    pub fn requirements(&self) -> Vec<Requirement> {
        self.tables.iter().map(|table| Requirement::new(Privilege::Ownership, table.object())).collect()
    }

    /// Returns the command tag.
    pub fn tag(&self) -> &'static str {
        if self.statement.vacuum { "VACUUM" } else { "ANALYZE" }
    }
}

impl Planner {
    /// Binds VACUUM and ANALYZE.
    ///
    /// # Errors
    /// 42P01.
    pub(super) async fn plan_vacuum(&self, statement: &Vacuum) -> Result<Plan> {
        let (mut tables, mut skipped) = (Vec::new(), Vec::new());
        for name in &statement.tables {
            let record = self.find(name).await?.ok_or_else(|| no_relation(name))?;
            match record.kind {
                TableKind::View => skipped.push(record.name.name),
                TableKind::Table | TableKind::MaterializedView => tables.push(self.open(record).await?),
            }
        }
        // Without a name it passes over what it may not touch; statistics are not kept, so ANALYZE touches nothing.
        if statement.tables.is_empty() && statement.vacuum {
            let (catalog, database) = (self.engine.catalog(), &self.caller.database);
            for record in self.caller.names.tables(catalog, database, None).await? {
                let is_owned = self.system.allows(Privilege::Ownership, object_of(&record)).await?;
                if record.kind != TableKind::View && is_owned {
                    tables.push(self.open(record).await?);
                }
            }
        }
        Ok(Plan::Vacuum(Box::new(VacuumPlan { statement: statement.clone(), tables, skipped })))
    }
}
