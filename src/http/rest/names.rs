//! Ids and field paths of requests, and their spelling in SQL.

use lancegate_sql::{Ident, ObjectName};

use super::error::{RestError, Result};

/// What joins the components of an id unless the request says otherwise.
pub(super) const DELIMITER: &str = "$";
/// The longest id, path or delimiter in bytes.
const ID_BYTES_MAX: usize = 2_048;

/// Returns the components of an id; none for the root.
///
/// # Errors
/// 400 for an empty component or delimiter.
pub(super) fn components(id: &str, delimiter: &str) -> Result<Vec<String>> {
    if delimiter.is_empty() || id.len() > ID_BYTES_MAX || delimiter.len() > ID_BYTES_MAX {
        return Err(RestError::invalid("the delimiter is empty or the id is too long"));
    }
    if id == delimiter {
        return Ok(Vec::new());
    }
    let parts: Vec<String> = id.split(delimiter).map(str::to_owned).collect();
    // A `$` inside of a component would be read as a border of namespaces.
    match parts.iter().any(|part| part.is_empty() || part.contains(DELIMITER)) {
        true => Err(RestError::invalid(format!("\"{id}\" is not an id whose parts are joined by \"{delimiter}\""))),
        false => Ok(parts),
    }
}

/// Returns the object that an id names.
///
/// # Errors
/// As [`components`]; 400 for the root, which is no object.
pub(super) fn object(id: &str, delimiter: &str) -> Result<ObjectName> {
    let mut parts = components(id, delimiter)?;
    let name = parts.pop().ok_or_else(|| RestError::invalid("the id names a namespace and no object in it"))?;
    Ok(ObjectName::in_schema(schema(&parts), name))
}

/// Returns the schema that stands for a namespace.
pub(super) fn schema(path: &[String]) -> String {
    if path.is_empty() { "public".to_owned() } else { path.join(DELIMITER) }
}

/// Returns the parts of a field path: separated by dots, where a part between
/// backticks may hold dots, and two backticks in it are one.
///
/// # Errors
/// 400 for an empty part or a backtick without its other end.
pub(super) fn field_path(path: &str) -> Result<Vec<String>> {
    let bad = || RestError::invalid(format!("\"{path}\" is not a field path"));
    if path.len() > ID_BYTES_MAX {
        return Err(RestError::invalid("the field path is too long"));
    }
    let mut parts = Vec::new();
    let mut rest = path;
    loop {
        let (part, after) = match rest.strip_prefix('`') {
            Some(quoted) => quoted_part(quoted).ok_or_else(bad)?,
            None => {
                let end = rest.find('.').unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        if part.is_empty() || (!rest.starts_with('`') && part.contains('`')) {
            return Err(bad());
        }
        parts.push(part);
        match after.strip_prefix('.') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(parts),
            None => return Err(bad()),
        }
    }
}

/// Returns what is between two backticks, and what comes after.
fn quoted_part(text: &str) -> Option<(String, &str)> {
    let mut part = String::new();
    let mut rest = text;
    loop {
        let end = rest.find('`')?;
        part.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('`') {
            Some(more) => {
                part.push('`');
                rest = more;
            }
            None => return Some((part, rest)),
        }
    }
}

/// Returns a field path in SQL.
pub(super) fn sql_path(parts: &[String]) -> String {
    parts.iter().map(|part| Ident::new(part).to_string()).collect::<Vec<_>>().join(".")
}

/// Returns a field path as the specification writes it.
pub(super) fn canonical(parts: &[String]) -> String {
    let plain = |part: &str| part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let written = |part: &String| if plain(part) { part.clone() } else { format!("`{}`", part.replace('`', "``")) };
    parts.iter().map(written).collect::<Vec<_>>().join(".")
}

/// Returns a text as a literal of SQL.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_components_and_the_delimiter_alone_is_the_root() {
        assert_eq!(components("$", "$").unwrap(), Vec::<String>::new());
        assert_eq!(components("a$b$t", "$").unwrap(), ["a", "b", "t"]);
        assert_eq!(components("a.t", ".").unwrap(), ["a", "t"]);
        for bad in ["", "a$", "$a", "a$$b"] {
            assert!(components(bad, "$").is_err(), "{bad}");
        }
        assert!(components("a$b.t", ".").is_err());
        assert_eq!(object("t", "$").unwrap(), ObjectName::in_schema("public", "t"));
        assert_eq!(object("a$b$t", "$").unwrap(), ObjectName::in_schema("a$b", "t"));
        assert!(object("$", "$").is_err());
    }

    #[test]
    fn bf_01_field_paths_have_dots_and_backticks() {
        let parts = |path: &str| field_path(path).unwrap();
        assert_eq!(parts("a"), ["a"]);
        assert_eq!(parts("a.b"), ["a", "b"]);
        assert_eq!(parts("`a.b`.c"), ["a.b", "c"]);
        assert_eq!(parts("`a``b`"), ["a`b"]);
        for bad in ["", ".", "a.", ".a", "`a", "`a`b", "a`b", "``"] {
            assert!(field_path(bad).is_err(), "{bad}");
        }
        for path in ["a.b", "`a.b`.c", "`a``b`"] {
            assert_eq!(canonical(&parts(path)), path);
        }
        assert_eq!(sql_path(&parts("Info.`x y`")), "\"Info\".\"x y\"");
    }
}
