//! Finding a part of a JSON text without changing a letter of it: numbers keep their
//! digits, objects their order and their blanks, as PostgreSQL's `json` keeps them.

use serde_json::Value;

/// A part of a JSON text that was found to be one.
type Slice<'a> = &'a str;

/// Returns whether a text is JSON, and nothing else.
pub(super) fn parse(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

/// Returns the value of a key; of several, the last one's.
pub(super) fn field<'a>(object: Slice<'a>, key: &str) -> Option<Slice<'a>> {
    let mut found = None;
    members(object, |name, value| {
        if unquoted(name).as_deref() == Some(key) {
            found = Some(value);
        }
    })?;
    found
}

/// Returns an element, counted from 0, or from -1 at the end.
pub(super) fn element(array: Slice<'_>, index: i64) -> Option<Slice<'_>> {
    let all = elements(array)?;
    let index = if index < 0 { index.checked_add(i64::try_from(all.len()).ok()?)? } else { index };
    all.get(usize::try_from(index).ok()?).copied()
}

/// Returns what a path leads to: keys, and numbers for elements.
pub(super) fn at_path<'a>(value: Slice<'a>, path: &[String]) -> Option<Slice<'a>> {
    path.iter().try_fold(value.trim(), |value, step| match value.bytes().next()? {
        b'{' => field(value, step),
        b'[' => element(value, step.trim().parse().ok()?),
        _ => None,
    })
}

/// Returns a value as text: strings without quotes, `null` as none.
pub(super) fn as_text(value: Slice<'_>) -> Option<String> {
    match value {
        "null" => None,
        quoted if quoted.starts_with('"') => unquoted(quoted),
        other => Some(other.to_owned()),
    }
}

/// Returns the elements of an array.
pub(super) fn elements(array: Slice<'_>) -> Option<Vec<Slice<'_>>> {
    let mut rest = array.trim().strip_prefix('[')?.trim_start();
    let mut all = Vec::new();
    if rest.starts_with(']') {
        return Some(all);
    }
    loop {
        let end = value_end(rest)?;
        all.push(rest[..end].trim_end());
        rest = rest[end..].trim_start();
        match rest.strip_prefix(',') {
            Some(more) => rest = more.trim_start(),
            None => return rest.starts_with(']').then_some(all),
        }
    }
}

/// Calls `each` with the quoted name and the value of every member of an object.
pub(super) fn members<'a>(object: Slice<'a>, mut each: impl FnMut(Slice<'a>, Slice<'a>)) -> Option<()> {
    let mut rest = object.trim().strip_prefix('{')?.trim_start();
    if rest.starts_with('}') {
        return Some(());
    }
    loop {
        let name_end = value_end(rest)?;
        let name = rest[..name_end].trim_end();
        rest = rest[name_end..].trim_start().strip_prefix(':')?.trim_start();
        let end = value_end(rest)?;
        each(name, rest[..end].trim_end());
        rest = rest[end..].trim_start();
        match rest.strip_prefix(',') {
            Some(more) => rest = more.trim_start(),
            None => return rest.starts_with('}').then_some(()),
        }
    }
}

/// Returns where the value at the begin of a text ends. The text was parsed before,
/// so only quotes and brackets matter.
fn value_end(text: &str) -> Option<usize> {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for (index, byte) in text.bytes().enumerate() {
        if quoted {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    quoted = false;
                    if depth == 0 {
                        return Some(index + 1);
                    }
                }
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => quoted = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return Some(index),
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(index + 1);
                }
            }
            b',' | b':' if depth == 0 => return Some(index),
            _ => {}
        }
    }
    (depth == 0 && !quoted).then_some(text.len())
}

fn unquoted(quoted: &str) -> Option<String> {
    serde_json::from_str(quoted).ok()
}

/// Returns whether `outer` contains `inner`, by the rules of `jsonb @> jsonb`.
pub(super) fn contains(outer: &Value, inner: &Value) -> bool {
    match (outer, inner) {
        // At the top an array also contains what one of its elements is.
        (Value::Array(outer), inner) if !inner.is_array() && !inner.is_object() => {
            outer.iter().any(|own| same(own, inner))
        }
        _ => within(outer, inner),
    }
}

fn within(outer: &Value, inner: &Value) -> bool {
    match (outer, inner) {
        (Value::Object(outer), Value::Object(inner)) => {
            inner.iter().all(|(key, value)| outer.get(key).is_some_and(|own| within(own, value)))
        }
        (Value::Array(outer), Value::Array(inner)) => {
            inner.iter().all(|value| outer.iter().any(|own| within(own, value)))
        }
        (outer, inner) => same(outer, inner),
    }
}

fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        // Integers beyond 2^53 are not what a float makes of them.
        (Value::Number(left), Value::Number(right)) => {
            left == right || ((left.is_f64() || right.is_f64()) && left.as_f64() == right.as_f64())
        }
        _ => left == right,
    }
}

/// Returns the elements of an array literal of PostgreSQL, `{a,b}`.
pub(super) fn array_literal(text: &str) -> Option<Vec<String>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    if inner.trim().is_empty() {
        return Some(Vec::new());
    }
    let (mut parts, mut part, mut quoted) = (Vec::new(), String::new(), false);
    // Space around an element, quoted or not, is no part of it; this much of `part` is.
    let mut kept = 0;
    let mut letters = inner.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => part.push(letters.next()?),
            '"' => quoted = !quoted,
            ',' if !quoted => {
                part.truncate(kept);
                parts.push(std::mem::take(&mut part));
                kept = 0;
                continue;
            }
            space if space.is_whitespace() && !quoted => {
                if !part.is_empty() {
                    part.push(space);
                }
                continue;
            }
            letter => part.push(letter),
        }
        kept = part.len();
    }
    part.truncate(kept);
    parts.push(part);
    (!quoted).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOC: &str = r#" {"a": {"b" : [1.10, "x\"y", null, {"c": true}]}, "a b":2 , "a": {"b": [1, -2e3]}} "#;

    #[test]
    fn parts_keep_their_letters() {
        assert_eq!(field(DOC, "a b"), Some("2"));
        assert_eq!(field(DOC, "a"), Some(r#"{"b": [1, -2e3]}"#), "the last of two");
        assert_eq!(field(DOC, "c"), None);
        let array = r#"[1.10, "x\"y,]", null, {"c": [true]}]"#;
        assert_eq!(element(array, 0), Some("1.10"));
        assert_eq!(element(array, 1).and_then(as_text).as_deref(), Some("x\"y,]"));
        assert_eq!(element(array, 2).and_then(as_text), None);
        assert_eq!(element(array, -1), Some(r#"{"c": [true]}"#));
        assert_eq!(element(array, 4), None);
        assert_eq!(element(array, -5), None);
        assert_eq!(elements("[]"), Some(Vec::new()));
        assert_eq!(field("{}", "a"), None);
    }

    #[test]
    fn paths_lead_through_both() {
        let path = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(at_path(DOC, &path("a,b,1")), Some("-2e3"));
        assert_eq!(at_path(DOC, &path("a,b,x")), None);
        assert_eq!(at_path(DOC, &[]), Some(DOC.trim()));
    }

    #[test]
    fn containment_is_that_of_postgresql() {
        let holds = |outer: &str, inner: &str| contains(&parse(outer).unwrap(), &parse(inner).unwrap());
        assert!(holds(r#"{"a":1,"b":{"c":[1,2]}}"#, r#"{"b":{"c":[2]}}"#));
        assert!(holds("[1,2,2]", "[2,1]"));
        assert!(holds("[1,2]", "1"));
        assert!(holds(r#"[{"a":1,"b":2}]"#, r#"[{"a":1}]"#));
        assert!(!holds(r#"[{"a":1}]"#, r#"{"a":1}"#));
        assert!(!holds("[[1,2]]", "[1]"));
        assert!(!holds(r#"{"a":{"b":1}}"#, r#"{"b":1}"#));
        assert!(!holds(r#"{"a":[1,2]}"#, r#"{"a":1}"#));
        assert!(!holds(r#"[{"a":[1]}]"#, r#"[{"a":1}]"#));
        assert!(!holds("9007199254740993", "9007199254740992"));
        assert!(holds("1.0", "1"));
    }

    #[test]
    fn array_literals_have_quotes() {
        assert_eq!(array_literal(r#"{a, "b,c" ,d\,e, f g ," h "}"#).unwrap(), ["a", "b,c", "d,e", "f g", " h "]);
        assert_eq!(array_literal("{}").unwrap(), Vec::<String>::new());
        assert_eq!(array_literal("a"), None);
    }
}
