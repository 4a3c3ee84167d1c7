//! Positions in the client's text: 1-based, in characters, from its start.

/// Returns the position of a 1-based line and column of the text.
pub fn of(text: &str, line: u64, column: u64) -> Option<usize> {
    let line = usize::try_from(line).ok()?.checked_sub(1)?;
    let column = usize::try_from(column).ok()?.checked_sub(1)?;
    let before: usize = text.split_inclusive('\n').take(line).map(|line| line.chars().count()).sum();
    let position = before + column;
    (position < text.chars().count()).then_some(position + 1)
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn characters_are_counted_from_the_start_of_the_whole_text() {
        let text = "sélect 1;\n  select x";
        for (line, column, expected) in [(1, 1, Some(1)), (2, 10, Some(20)), (3, 1, None), (0, 0, None)] {
            assert_eq!(of(text, line, column), expected, "{line}:{column}");
        }
    }
}
