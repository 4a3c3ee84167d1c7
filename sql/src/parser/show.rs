//! `SHOW` and `DESCRIBE` in all their meanings.

use sqlparser::tokenizer::Token;

use crate::ast::{
    CatalogListing, CatalogObject, Describe, DescribeJob, DescribeTable, DescribeTarget, JobFormat, JobScope,
    ListingScope, Show, ShowApiKeys, ShowErrors, ShowGpuClasses, ShowGrants, ShowJobEvents, ShowJobSplits, ShowJobs,
    ShowRoles, ShowUsers, Statement,
};
use crate::cursor::Cursor;
use crate::error::ParseError;

/// The longest page of job rows.
const JOB_ROWS_MAX: u32 = 10_000;
/// The longest page of row errors.
const ERROR_ROWS_MAX: u32 = 100_000;
/// The longest page of a catalog listing.
const LISTING_ROWS_MAX: u32 = 10_000;

/// Parses `SHOW …`.
pub(super) fn show(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    cursor.expect(&["SHOW"])?;
    if cursor.take(&["JOBS"]) {
        return show_jobs(cursor).map(Statement::ShowJobs);
    }
    if cursor.take(&["JOB"]) {
        return show_job(cursor);
    }
    if cursor.take(&["ERRORS"]) {
        return show_errors(cursor).map(Statement::ShowErrors);
    }
    if cursor.take(&["GPU", "CLASSES"]) {
        return Ok(Statement::ShowGpuClasses(ShowGpuClasses));
    }
    if cursor.take(&["API", "KEYS"]) {
        return Ok(Statement::ShowApiKeys(ShowApiKeys));
    }
    if cursor.take(&["ROLES"]) {
        return Ok(Statement::ShowRoles(ShowRoles));
    }
    if cursor.take(&["USERS"]) {
        return Ok(Statement::ShowUsers(ShowUsers));
    }
    if cursor.take(&["GRANTS"]) {
        return show_grants(cursor).map(Statement::ShowGrants);
    }
    if let Some(object) = listed_object(cursor) {
        return listing(cursor, object).map(Statement::CatalogListing);
    }
    if cursor.take(&["ALL"]) {
        return Ok(Statement::Show(Show::All));
    }
    Ok(Statement::Show(Show::Setting(super::session::setting_name(cursor)?)))
}

fn show_jobs(cursor: &mut Cursor<'_>) -> Result<ShowJobs, ParseError> {
    let scope = if cursor.take(&["FOR", "TABLE"]) {
        JobScope::ForTable(cursor.object_name()?)
    } else if cursor.take(&["FOR"]) {
        cursor.expect(&["JOB"])?;
        JobScope::ForJob(cursor.string()?)
    } else {
        JobScope::All
    };
    Ok(ShowJobs { scope, limit: cursor.limit(JOB_ROWS_MAX)? })
}

fn show_job(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    match cursor.take_one(&["EVENTS", "SPLITS", "SUMMARY"]) {
        Some("EVENTS") => {
            let id = cursor.string()?;
            let filter = if cursor.take(&["WHERE"]) { Some(cursor.expression()?) } else { None };
            let limit = cursor.limit(JOB_ROWS_MAX)?;
            Ok(Statement::ShowJobEvents(ShowJobEvents { id, filter, limit }))
        }
        Some("SPLITS") => Ok(Statement::ShowJobSplits(ShowJobSplits { id: cursor.string()? })),
        Some(_) => describe_job(cursor).map(Statement::DescribeJob),
        None => Err(cursor.unexpected()),
    }
}

fn show_errors(cursor: &mut Cursor<'_>) -> Result<ShowErrors, ParseError> {
    cursor.expect(&["ON"])?;
    cursor.take(&["TABLE"]);
    let table = cursor.object_name()?;
    let job_id = if cursor.take(&["FOR"]) {
        cursor.expect(&["JOB"])?;
        Some(cursor.string()?)
    } else {
        None
    };
    Ok(ShowErrors { table, job_id, limit: cursor.limit(ERROR_ROWS_MAX)? })
}

fn show_grants(cursor: &mut Cursor<'_>) -> Result<ShowGrants, ParseError> {
    if cursor.take(&["FOR"]) || cursor.take(&["TO"]) {
        return super::grant::grantee(cursor).map(ShowGrants::For);
    }
    if cursor.take(&["ON"]) {
        return super::grant::target(cursor).map(ShowGrants::On);
    }
    Ok(ShowGrants::All)
}

fn listed_object(cursor: &mut Cursor<'_>) -> Option<CatalogObject> {
    let objects: [(&[&str], CatalogObject); 13] = [
        (&["TABLES"], CatalogObject::Tables),
        (&["VIEWS"], CatalogObject::Views),
        (&["MATERIALIZED", "VIEWS"], CatalogObject::MaterializedViews),
        (&["FUNCTION", "VERSIONS"], CatalogObject::FunctionVersions),
        (&["FUNCTIONS"], CatalogObject::Functions),
        (&["SECRETS"], CatalogObject::Secrets),
        (&["STORAGE", "INTEGRATIONS"], CatalogObject::StorageIntegrations),
        (&["SCHEMAS"], CatalogObject::Schemas),
        (&["NAMESPACES"], CatalogObject::Schemas),
        (&["DATABASES"], CatalogObject::Databases),
        (&["COLUMNS"], CatalogObject::Columns),
        (&["INDEXES"], CatalogObject::Indexes),
        (&["INDEX"], CatalogObject::Indexes),
    ];
    objects.into_iter().find(|(words, _)| cursor.take(words)).map(|(_, object)| object)
}

fn listing(cursor: &mut Cursor<'_>, object: CatalogObject) -> Result<CatalogListing, ParseError> {
    let scope = listing_scope(cursor, object)?;
    let like = if cursor.take(&["LIKE"]) { Some(cursor.string()?) } else { None };
    let name_after = if cursor.take(&["WHERE"]) { Some(name_after(cursor)?) } else { None };
    let limit = cursor.limit(LISTING_ROWS_MAX)?;
    let page_token = if limit.is_some() && cursor.take(&["FROM"]) { Some(cursor.string()?) } else { None };
    Ok(CatalogListing { object, scope, like, name_after, limit, page_token })
}

fn listing_scope(cursor: &mut Cursor<'_>, object: CatalogObject) -> Result<Option<ListingScope>, ParseError> {
    match object {
        CatalogObject::Databases => Ok(None),
        CatalogObject::Columns | CatalogObject::Indexes | CatalogObject::FunctionVersions => {
            cursor.take_one(&["IN", "FROM", "ON"]).ok_or_else(|| cursor.unexpected())?;
            cursor.object_name().map(|name| Some(ListingScope::Object(name)))
        }
        CatalogObject::Tables
        | CatalogObject::Views
        | CatalogObject::MaterializedViews
        | CatalogObject::Functions
        | CatalogObject::Secrets
        | CatalogObject::StorageIntegrations
        | CatalogObject::Schemas => {
            if cursor.take_one(&["IN", "FROM"]).is_none() {
                return Ok(None);
            }
            cursor.schema_name().map(|name| Some(ListingScope::Schema(name)))
        }
    }
}

/// Takes `name > '<name>'`, the older way to ask for the next page.
fn name_after(cursor: &mut Cursor<'_>) -> Result<String, ParseError> {
    cursor.expect(&["NAME"])?;
    cursor.expect_token(&Token::Gt)?;
    cursor.string()
}

/// Parses `DESCRIBE …` and `DESC …`.
pub(super) fn describe(cursor: &mut Cursor<'_>) -> Result<Statement, ParseError> {
    cursor.take_one(&["DESCRIBE", "DESC"]).ok_or_else(|| cursor.unexpected())?;
    if cursor.looking_at(&["JOB"]) && cursor.is_string(1) {
        cursor.advance();
        return describe_job(cursor).map(Statement::DescribeJob);
    }
    // A kind counts as one only before a name, so that tables may be called
    // `function` or `index`.
    let named = |ahead: usize| matches!(cursor.peek_nth(ahead), Some(Token::Word(_)));
    let (one, two) = (named(1), named(2));
    let target = if one && two && cursor.take(&["MATERIALIZED", "VIEW"]) {
        DescribeTarget::MaterializedView(cursor.object_name()?)
    } else if one && two && cursor.take(&["STORAGE", "INTEGRATION"]) {
        DescribeTarget::StorageIntegration(cursor.ident()?)
    } else if one && cursor.take(&["FUNCTION"]) {
        DescribeTarget::Function(cursor.object_name()?)
    } else if one && cursor.take(&["SECRET"]) {
        DescribeTarget::Secret(cursor.object_name()?)
    } else if one && cursor.take(&["DATABASE"]) {
        DescribeTarget::Database(cursor.ident()?)
    } else if one && cursor.take(&["SCHEMA"]) {
        DescribeTarget::Schema(cursor.schema_name()?)
    } else if one && cursor.looking_at(&["NAMESPACE"]) {
        DescribeTarget::Schema(super::create::schema_or_namespace(cursor)?)
    } else if one && cursor.take(&["INDEX"]) {
        DescribeTarget::Index(cursor.object_name()?)
    } else {
        if one {
            cursor.take_one(&["TABLE", "VIEW"]);
        }
        let table = cursor.object_name()?;
        return Ok(Statement::DescribeTable(DescribeTable { table }));
    };
    Ok(Statement::Describe(Describe { target }))
}

fn describe_job(cursor: &mut Cursor<'_>) -> Result<DescribeJob, ParseError> {
    let id = cursor.string()?;
    let format = if cursor.take(&["FORMAT"]) {
        match cursor.take_one(&["TEXT", "TABLE", "JSON"]) {
            Some("TEXT") => JobFormat::Text,
            Some("TABLE") => JobFormat::Table,
            Some(_) => JobFormat::Json,
            None => return Err(cursor.unexpected()),
        }
    } else {
        JobFormat::Text
    };
    Ok(DescribeJob { id, format })
}
