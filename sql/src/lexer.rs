//! Text to tokens to statements.
//!
//! The native tokenizer reads the text once. Blanks and comments are dropped,
//! every token keeps its place in bytes and characters, and semicolons split
//! the stream into statements.

use std::ops::Range;

use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer, TokenizerError, Word};

use crate::dialect::GatewayDialect;
use crate::error::{ParseError, ParseErrorKind};
use crate::sensitive;

/// A token and its place.
#[derive(Debug, Clone)]
pub(crate) struct Lexeme {
    /// The token with its lines and columns, for the native parser.
    pub(crate) token: TokenWithSpan,
    /// The bytes of the text that it takes.
    pub(crate) bytes: Range<usize>,
    /// Its 1-based position in characters.
    pub(crate) position: usize,
}

/// Reads a text into tokens.
pub(crate) fn tokenize(sql: &str) -> Result<Vec<Lexeme>, ParseError> {
    let mut tokens = Vec::new();
    Tokenizer::new(&GatewayDialect, sql)
        .tokenize_with_location_into_buf(&mut tokens)
        .map_err(|error| unreadable(sql, &tokens, error))?;
    let mut place = Place::new(sql);
    let mut lexemes = Vec::with_capacity(tokens.len() / 2);
    for mut token in tokens {
        if matches!(token.token, Token::Whitespace(_)) {
            continue;
        }
        let (start, position) = place.advance(token.span.start);
        let (end, _) = place.advance(token.span.end);
        if let Token::Word(Word { quote_style: Some(quote), .. }) = &mut token.token {
            if start + 2 == end {
                return Err(ParseError::new(
                    ParseErrorKind::Syntax,
                    format!("zero-length delimited identifier at or near \"{}\"", &sql[start..end]),
                )
                .at(Some(position)));
            }
            *quote = '"';
        }
        lexemes.push(Lexeme { token, bytes: start..end, position });
    }
    Ok(lexemes)
}

/// Splits tokens at semicolons. Each part comes with the index of the semicolon
/// that ends it, if one does; parts without tokens are left out.
pub(crate) fn split(lexemes: &[Lexeme]) -> Vec<(&[Lexeme], Option<&Lexeme>)> {
    let mut statements = Vec::new();
    let mut start = 0;
    for (index, lexeme) in lexemes.iter().enumerate() {
        if lexeme.token.token == Token::SemiColon {
            statements.push((&lexemes[start..index], Some(lexeme)));
            start = index + 1;
        }
    }
    statements.push((&lexemes[start..], None));
    statements.retain(|(statement, _)| !statement.is_empty());
    statements
}

/// Walks a text forward from location to location.
#[derive(Debug)]
struct Place<'a> {
    chars: std::str::Chars<'a>,
    bytes_total: usize,
    line: u64,
    column: u64,
    position: usize,
}

impl<'a> Place<'a> {
    fn new(sql: &'a str) -> Self {
        Self { chars: sql.chars(), bytes_total: sql.len(), line: 1, column: 1, position: 1 }
    }

    /// Returns the byte offset and the 1-based character position of `location`,
    /// which must not lie before the one asked for last.
    fn advance(&mut self, location: Location) -> (usize, usize) {
        while (self.line, self.column) < (location.line, location.column) {
            match self.chars.next() {
                None => break,
                Some('\n') => {
                    self.line += 1;
                    self.column = 1;
                }
                Some(_) => self.column += 1,
            }
            self.position += 1;
        }
        (self.bytes_total - self.chars.as_str().len(), self.position)
    }
}

/// Describes a text that has no token where one should start.
fn unreadable(sql: &str, read: &[TokenWithSpan], error: TokenizerError) -> ParseError {
    let mut place = Place::new(sql);
    let start = read.last().map_or(Location { line: 1, column: 1 }, |token| token.span.end);
    let (start, position) = place.advance(start);
    let rest = &sql[start..];
    let what = if rest.starts_with("/*") {
        "unterminated /* comment"
    } else if rest.starts_with(['"', '`']) {
        "unterminated quoted identifier"
    } else if rest.starts_with('$') {
        "unterminated dollar-quoted string"
    } else if error.message.to_ascii_lowercase().contains("unterminated") {
        "unterminated quoted string"
    } else {
        "syntax error"
    };
    let mut problem =
        ParseError::new(ParseErrorKind::Syntax, format!("{what} at or near \"{rest}\"")).at(Some(position));
    if what == "syntax error" {
        problem = problem.with_detail(error.message);
    }
    sensitive::in_text(read.iter().map(|token| &token.token), rest, problem)
}
