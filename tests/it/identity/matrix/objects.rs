//! The names of objects: how the record spells them, and how GRANT does.

/// Returns the objects that lead to one: its namespaces and its database.
pub(super) fn ways(object: &str) -> Vec<String> {
    let Some((kind, rest)) = object.split_once(':') else { return Vec::new() };
    let (database, path) = rest.split_once(':').unwrap_or((rest, ""));
    let above = |path: &str| path.rsplit_once('$').map(|(above, _)| above.to_owned());
    let mut found = Vec::new();
    if kind != "database" {
        found.push(format!("database:{database}"));
        let mut next = above(path);
        while let Some(path) = next {
            next = above(&path);
            found.push(format!("namespace:{database}:{path}"));
        }
    }
    found
}

/// Returns an object as GRANT names it.
pub(super) fn target(object: &str) -> String {
    let Some((kind, rest)) = object.split_once(':') else { return object.to_uppercase() };
    let (_, path) = rest.split_once(':').unwrap_or(("", rest));
    let name = path.replace('$', ".");
    match kind {
        "database" => format!("DATABASE {rest}"),
        "namespace" => format!("SCHEMA {name}"),
        "table" if name.ends_with(".mv") => format!("MATERIALIZED VIEW {name}"),
        other => format!("{} {name}", other.to_uppercase()),
    }
}

#[test]
fn objects_are_spelled_as_grant_wants_them() {
    assert_eq!(target("system"), "SYSTEM");
    assert_eq!(target("database:lancegate"), "DATABASE lancegate");
    assert_eq!(target("namespace:lancegate:z1"), "SCHEMA z1");
    assert_eq!(target("table:lancegate:z1$t"), "TABLE z1.t");
    assert_eq!(target("table:lancegate:z1$mv"), "MATERIALIZED VIEW z1.mv");
    assert_eq!(ways("table:lancegate:z1$t"), ["database:lancegate", "namespace:lancegate:z1"]);
    assert_eq!(ways("namespace:lancegate:z1"), ["database:lancegate"]);
    assert!(ways("system").is_empty() && ways("database:lancegate").is_empty());
}
