//! The lexical form that the file of rules and the file of maps share: fields
//! between blanks, entries between commas, double quotes around what is neither.

/// One entry of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    /// A quoted word is never a keyword.
    pub(crate) quoted: bool,
}

impl Token {
    /// Returns whether it is this keyword.
    pub(crate) fn is(&self, keyword: &str) -> bool {
        !self.quoted && self.text == keyword
    }
}

/// The fields of one line that has any, with its number; a field is never empty.
pub(crate) type Line = (usize, Result<Vec<Vec<Token>>, &'static str>);

/// Splits a text into lines of fields. A backslash at its end joins a line with
/// the next one; `#` begins a comment.
pub(crate) fn lines(text: &str) -> Vec<Line> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let mut whole = line.to_owned();
        while whole.ends_with('\\') {
            whole.pop();
            match lines.next() {
                Some((_, more)) => whole.push_str(more),
                None => break,
            }
        }
        match fields(&whole) {
            Ok(fields) if fields.is_empty() => {}
            fields => found.push((index + 1, fields)),
        }
    }
    found
}

fn fields(line: &str) -> Result<Vec<Vec<Token>>, &'static str> {
    let mut fields: Vec<Vec<Token>> = Vec::new();
    let mut chars = line.chars().peekable();
    // Whether the next entry continues the last field.
    let mut in_list = false;
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        match chars.peek() {
            None | Some('#') => break,
            Some(',') => return Err("a list has an empty entry"),
            Some(_) => {}
        }
        let token = token(&mut chars)?;
        match fields.last_mut().filter(|_| in_list) {
            Some(field) => field.push(token),
            None => fields.push(vec![token]),
        }
        in_list = chars.next_if_eq(&',').is_some();
    }
    if in_list {
        return Err("a list ends with a comma");
    }
    Ok(fields)
}

fn token(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Token, &'static str> {
    let mut token = Token { text: String::new(), quoted: false };
    let mut in_quotes = false;
    while let Some(c) = chars.next_if(|c| in_quotes || !(c.is_whitespace() || matches!(c, ',' | '#'))) {
        match c {
            '"' if in_quotes && chars.next_if_eq(&'"').is_some() => token.text.push('"'),
            '"' => {
                in_quotes = !in_quotes;
                token.quoted = true;
            }
            c => token.text.push(c),
        }
    }
    if in_quotes {
        return Err("a quote is not closed");
    }
    if token.text.is_empty() {
        return Err("an entry is empty");
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let field = |field: &Vec<Token>| {
            let token = |token: &Token| if token.quoted { format!("<{}>", token.text) } else { token.text.clone() };
            field.iter().map(token).collect::<Vec<_>>().join("|")
        };
        let line = |(number, fields): &Line| match fields {
            Ok(fields) => format!("{number}: {}", fields.iter().map(field).collect::<Vec<_>>().join(" ")),
            Err(error) => format!("{number}: {error}"),
        };
        lines(text).iter().map(line).collect()
    }

    #[test]
    fn lines_have_fields_and_fields_have_entries() {
        assert_eq!(
            shown("host all, b\tx # note\n\n# note\n  local a,\"b c\" "),
            ["1: host all|b x", "4: local a|<b c>"]
        );
        assert_eq!(shown("a \\\n b \\\nc\nd"), ["1: a b c", "4: d"]);
        assert_eq!(shown(r#""a""b" x"y"#), ["1: a quote is not closed"]);
        assert_eq!(shown(r#""a""b" "x,# y""#), [r#"1: <a"b> <x,# y>"#]);
        assert_eq!(
            shown("a,\n,b\n\"\"\na b,,c"),
            [
                "1: a list ends with a comma",
                "2: a list has an empty entry",
                "3: an entry is empty",
                "4: a list has an empty entry",
            ]
        );
        assert_eq!(shown("last \\"), ["1: last"]);
    }
}
