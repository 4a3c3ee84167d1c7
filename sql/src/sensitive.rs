//! Errors of statements that carry passwords and secrets.
//!
//! A syntax error quotes the text that it stumbled over. In these statements
//! that may be the very value, and errors end in the logs of clients. From the
//! place on where a value may stand, an error keeps its position and says
//! nothing of the text.

use sqlparser::tokenizer::Token;

use crate::error::ParseError;
use crate::lexer::Lexeme;

/// What stands before the quoted text in messages about a place.
const NEAR: &str = " at or near \"";

/// From where on a statement is not quoted.
#[derive(Debug, PartialEq, Eq)]
struct Hidden {
    /// The index of the first such token.
    from: usize,
    /// What the statement is, as far as that is clear.
    statement: Option<String>,
}

/// Returns the error of one statement without what must not be quoted.
pub(crate) fn in_statement(lexemes: &[Lexeme], error: ParseError) -> ParseError {
    let tokens: Vec<&Token> = lexemes.iter().map(|lexeme| &lexeme.token.token).collect();
    let Some(hidden) = hidden(&tokens) else { return error };
    let first = lexemes.get(hidden.from).map_or(usize::MAX, |lexeme| lexeme.position);
    if error.position.is_some_and(|position| position < first) {
        return error;
    }
    unquoted(error, &hidden)
}

/// Returns the error of a text that is no token: `read` are the tokens before
/// it, and `rest` is the text from there to the end.
pub(crate) fn in_text<'a>(read: impl Iterator<Item = &'a Token>, rest: &str, error: ParseError) -> ParseError {
    let mut tokens = Vec::new();
    for token in read {
        match token {
            Token::SemiColon => tokens.clear(),
            Token::Whitespace(_) => {}
            token => tokens.push(token),
        }
    }
    let rest = rest.to_ascii_lowercase();
    let behind = ["secret_string", "password"].iter().any(|word| rest.contains(word));
    match hidden(&tokens) {
        Some(hidden) if tokens.len() >= hidden.from => unquoted(error, &hidden),
        _ if behind => unquoted(error, &Hidden { from: 0, statement: None }),
        _ => error,
    }
}

fn unquoted(mut error: ParseError, hidden: &Hidden) -> ParseError {
    let Some(at) = error.message.find(NEAR) else { return error };
    error.message.truncate(at);
    if let Some(statement) = &hidden.statement {
        error.message.push_str(" in ");
        error.message.push_str(statement);
        if statement.ends_with(" SECRET") && error.hint.is_none() {
            error.hint = Some(format!("{statement} <name> TYPE = GENERIC_STRING SECRET_STRING = '<value>'."));
        }
    }
    // The native parser's explanation quotes, too.
    error.detail = None;
    error
}

fn hidden(tokens: &[&Token]) -> Option<Hidden> {
    let word = |index: usize, keyword: &str| match tokens.get(index) {
        Some(Token::Word(word)) => word.quote_style.is_none() && word.value.eq_ignore_ascii_case(keyword),
        _ => false,
    };
    let position = |keyword: &str| (0..tokens.len()).find(|index| word(*index, keyword));
    for verb in ["CREATE", "ALTER"].into_iter().filter(|verb| word(0, verb)) {
        if word(1, "SECRET") {
            return Some(Hidden { from: 2, statement: Some(format!("{verb} SECRET")) });
        }
        if word(1, "STORAGE") && word(2, "INTEGRATION") {
            return Some(Hidden { from: 3, statement: Some(format!("{verb} STORAGE INTEGRATION")) });
        }
        if let Some(kind) = ["USER", "ROLE"].into_iter().find(|kind| word(1, kind)) {
            let from = position("PASSWORD")? + 1;
            return Some(Hidden { from, statement: Some(format!("{verb} {kind}")) });
        }
    }
    // A misspelt statement.
    position("SECRET_STRING").map(|from| Hidden { from, statement: None })
}
