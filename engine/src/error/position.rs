//! Positions in the client's text: 1-based, in characters, from its start.

/// Returns the position of a 1-based line and column of the text.
pub fn of(text: &str, line: u64, column: u64) -> Option<usize> {
    let line = usize::try_from(line).ok()?.checked_sub(1)?;
    let column = usize::try_from(column).ok()?.checked_sub(1)?;
    let before: usize = text.split_inclusive('\n').take(line).map(|line| line.chars().count()).sum();
    let position = before + column;
    (position < text.chars().count()).then_some(position + 1)
}

/// Returns where in a statement that failed the thing is that its error names, if the
/// statement has it once: a value that is none of its type, a type or a parameter that there
/// is not. The stages that find out know the value and not its place.
pub fn of_named(code: &str, message: &str, text: &str) -> Option<usize> {
    let named = || message.split_once('"').and_then(|(_, rest)| rest.rsplit_once('"')).map(|(named, _)| named);
    match code {
        // `integer out of range` and the bounds of sequences name no literal.
        "22003" if !message.starts_with("value \"") => None,
        "22P02" | "22003" | "22007" | "22008" => once(text, &format!("'{}'", named()?.replace('\'', "''"))),
        "42704" if message.starts_with("type ") => once(text, named()?),
        "42P02" => text.find(message.strip_prefix("there is no parameter ")?).map(|at| counted(text, at)),
        "42P10" => {
            let position = message.strip_prefix("ORDER BY position ")?.split(' ').next()?;
            let list = text.to_ascii_lowercase().rfind("order by")?;
            text[list..].find(position).map(|at| counted(text, list + at))
        }
        _ => None,
    }
}

/// Returns where a part of a text begins that is there once.
fn once(text: &str, part: &str) -> Option<usize> {
    let mut found = text.match_indices(part);
    let (at, _) = found.next()?;
    found.next().is_none().then(|| counted(text, at))
}

fn counted(text: &str, at: usize) -> usize {
    text[..at].chars().count() + 1
}

#[cfg(test)]
mod tests {
    use super::{of, of_named};

    #[test]
    fn what_an_error_names_is_found_if_it_is_there_once() {
        let integer = |value: &str| format!("invalid input syntax for type integer: \"{value}\"");
        for (code, message, text, expected) in [
            ("22P02", integer("x"), "SELECT 'x'::int", Some(8)),
            ("22P02", integer("it's"), "SELECT é, 'it''s'::int", Some(11)),
            ("22P02", integer("x"), "SELECT 'x', 'x'::int", None),
            ("22P02", integer("x"), "SELECT body::int FROM t", None),
            ("42704", "type \"nothing\" does not exist".to_owned(), "SELECT 'a'::nothing", Some(13)),
            ("42P02", "there is no parameter $1".to_owned(), "SELECT $1", Some(8)),
            ("42P10", "ORDER BY position 5 is not in select list".to_owned(), "SELECT 5 ORDER BY 5", Some(19)),
            (
                "22003",
                "setval: value 0 is out of bounds for sequence \"s\" (1..9)".to_owned(),
                "SELECT setval('s', 0)",
                None,
            ),
            ("42P01", "relation \"t\" does not exist".to_owned(), "SELECT 't'", None),
        ] {
            assert_eq!(of_named(code, &message, text), expected, "{message}: {text}");
        }
    }

    #[test]
    fn characters_are_counted_from_the_start_of_the_whole_text() {
        let text = "sélect 1;\n  select x";
        for (line, column, expected) in [(1, 1, Some(1)), (2, 10, Some(20)), (3, 1, None), (0, 0, None)] {
            assert_eq!(of(text, line, column), expected, "{line}:{column}");
        }
    }
}
