//! Queries that a client sends word for word and that cannot be planned as they are, with what they ask in other words.

use sqlparser::ast::Statement;

/// What asyncpg asks about types that it does not know, as the arrays of all elements but text are: a recursive query over
/// domains, composites, ranges and arrays. Here are types and arrays of them only.
const TYPES_OF_ASYNCPG: &str = "
    SELECT t.oid, n.nspname AS ns, t.typname AS name, t.typtype AS kind, NULL::oid AS basetype, t.typelem AS elemtype,
        e.typdelim AS elemdelim, NULL::oid AS range_subtype, NULL::oid[] AS attrtypoids, NULL::text[] AS attrnames, 0 AS depth,
        NULL::text AS basetype_name, e.typname AS elemtype_name, NULL::text AS range_subtype_name
    FROM pg_type t
    JOIN pg_namespace n ON n.oid = t.typnamespace
    LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typlen = -1
    WHERE t.oid = ANY ($1::oid[])";

/// Returns what a query asks, if it is one of these.
pub fn query(text: &str) -> Option<Statement> {
    // Only a text that is this query and nothing before it: others may quote it.
    let begins = text.trim_start().starts_with("WITH RECURSIVE typeinfo_tree(");
    let of_asyncpg = begins && text.contains("AS range_subtype_name");
    let words = of_asyncpg.then_some(TYPES_OF_ASYNCPG)?;
    let parsed = lancegate_sql::parse(words, &lancegate_sql::Limits::default()).ok()?.pop()?;
    match parsed.statement {
        lancegate_sql::Statement::Query(query) => Some(*query),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_words_of_known_queries_are_sql() {
        assert!(super::query("WITH RECURSIVE typeinfo_tree(oid) … AS range_subtype_name").is_some());
        assert!(super::query("SELECT 1").is_none());
        let quoted = "INSERT INTO log VALUES ('WITH RECURSIVE typeinfo_tree( AS range_subtype_name')";
        assert!(super::query(quoted).is_none());
    }
}
