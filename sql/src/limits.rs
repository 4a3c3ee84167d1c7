//! How much SQL is read.
//!
//! The parser recurses into nested text, and the trees of long flat chains are
//! dropped recursively, so both are bounded on the token stream, before a tree
//! exists. A stack overflow cannot be caught; this is the only guard.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

use crate::error::{ParseError, ParseErrorKind};
use crate::lexer::Lexeme;

/// Bounds on one SQL text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The longest text in bytes.
    pub sql_bytes_max: usize,
    /// How deep parentheses, brackets, `CASE` and casts may nest in a statement.
    pub nesting_depth_max: usize,
    /// How many tokens a text may have, comments and blanks counted.
    pub tokens_max: usize,
    /// How many terms a chain of operators, set operations, joins, casts or
    /// subscripts without parentheses may have.
    pub chain_terms_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sql_bytes_max: 16 * 1024 * 1024,
            nesting_depth_max: 32,
            tokens_max: 2_000_000,
            chain_terms_max: 1_000,
        }
    }
}

impl Limits {
    /// Refuses a text that is too long or has too many tokens before it is
    /// tokenized: a token takes far more memory than the text it stands for.
    pub(crate) fn ensure_text(&self, sql: &str) -> Result<(), ParseError> {
        if sql.len() > self.sql_bytes_max {
            return Err(exceeded("statement is too long")
                .with_detail(format!("A text has at most {} bytes.", self.sql_bytes_max)));
        }
        // Every token but a name or number holds a byte of its own, so short texts
        // need no count.
        if sql.len() > self.tokens_max && count_tokens(sql, self.tokens_max) > self.tokens_max {
            return Err(self.too_many_tokens());
        }
        Ok(())
    }

    /// Refuses statements that nest too deeply or chain too many terms.
    pub(crate) fn ensure_statement(&self, lexemes: &[Lexeme]) -> Result<(), ParseError> {
        if lexemes.len() > self.tokens_max {
            return Err(self.too_many_tokens());
        }
        let mut levels = vec![Level::default()];
        for lexeme in lexemes {
            let kind = TokenKind::of(&lexeme.token.token);
            if kind == TokenKind::Close && levels.len() > 1 {
                levels.pop();
            }
            let Some(level) = levels.last_mut() else {
                continue;
            };
            match kind {
                TokenKind::Operator | TokenKind::OpenAfter => level.operators += 1,
                TokenKind::SetOperation => {
                    level.set_operations += 1;
                    level.operators = 0;
                }
                TokenKind::Join => {
                    level.joins += 1;
                    level.operators = 0;
                }
                TokenKind::Break => level.operators = 0,
                TokenKind::Open | TokenKind::Close | TokenKind::Other => {}
            }
            if level.longest() >= self.chain_terms_max {
                return Err(exceeded("statement is too complex")
                    .with_detail(format!(
                        "A chain of operators, set operations or joins has at most {} terms.",
                        self.chain_terms_max
                    ))
                    .at(Some(lexeme.position)));
            }
            if matches!(kind, TokenKind::Open | TokenKind::OpenAfter) {
                levels.push(Level::default());
            }
            if levels.len() > self.nesting_depth_max + 1 {
                return Err(exceeded("stack depth limit exceeded")
                    .with_detail(format!(
                        "Parentheses, brackets and CASE nest at most {} deep.",
                        self.nesting_depth_max
                    ))
                    .at(Some(lexeme.position)));
            }
        }
        Ok(())
    }

    fn too_many_tokens(&self) -> ParseError {
        exceeded("statement is too complex")
            .with_detail(format!("A text has at most {} tokens.", self.tokens_max))
    }
}

pub(crate) fn exceeded(message: &str) -> ParseError {
    ParseError::new(ParseErrorKind::LimitExceeded, message)
}

/// What has been counted between two brackets.
#[derive(Debug, Default)]
struct Level {
    operators: usize,
    set_operations: usize,
    joins: usize,
}

impl Level {
    fn longest(&self) -> usize {
        self.operators.max(self.set_operations).max(self.joins)
    }
}

/// What a token does to the depth and length of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TokenKind {
    /// Starts a level.
    Open,
    /// Starts a level and wraps what stands before it.
    OpenAfter,
    /// Ends a level.
    Close,
    /// Wraps what stands before it.
    Operator,
    /// Joins two queries.
    SetOperation,
    /// Joins two tables.
    Join,
    /// Starts a new expression.
    Break,
    /// Anything else.
    Other,
}

impl TokenKind {
    fn of(token: &Token) -> Self {
        match token {
            Token::LParen | Token::LBrace => Self::Open,
            Token::LBracket => Self::OpenAfter,
            Token::RParen | Token::RBracket | Token::RBrace => Self::Close,
            Token::Comma | Token::SemiColon => Self::Break,
            Token::Word(word) => Self::of_keyword(word.keyword),
            Token::EOF
            | Token::Number(..)
            | Token::Char(_)
            | Token::Period
            | Token::Placeholder(_)
            | Token::Whitespace(_)
            | Token::SingleQuotedString(_)
            | Token::DollarQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::SingleQuotedByteStringLiteral(_) => Self::Other,
            // What is not known here is an operator.
            _ => Self::Operator,
        }
    }

    fn of_keyword(keyword: Keyword) -> Self {
        match keyword {
            Keyword::CASE => Self::Open,
            Keyword::END => Self::Close,
            Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT => Self::SetOperation,
            Keyword::JOIN => Self::Join,
            Keyword::AND
            | Keyword::OR
            | Keyword::XOR
            | Keyword::NOT
            | Keyword::IS
            | Keyword::NOTNULL
            | Keyword::IN
            | Keyword::LIKE
            | Keyword::ILIKE
            | Keyword::SIMILAR
            | Keyword::BETWEEN
            | Keyword::COLLATE
            | Keyword::AT
            | Keyword::OVERLAPS
            | Keyword::OPERATOR => Self::Operator,
            Keyword::SELECT
            | Keyword::FROM
            | Keyword::WHERE
            | Keyword::GROUP
            | Keyword::HAVING
            | Keyword::ORDER
            | Keyword::SET
            | Keyword::VALUES
            | Keyword::RETURNING
            | Keyword::WHEN
            | Keyword::THEN
            | Keyword::ELSE => Self::Break,
            _ => Self::Other,
        }
    }
}

/// Counts tokens from the bytes alone, never too few by much, and stops soon
/// after `max`. Strings, quoted names and comments count as one.
fn count_tokens(sql: &str, max: usize) -> usize {
    let mut count = 0;
    let bytes = sql.as_bytes();
    let mut at = 0;
    while at < bytes.len() && count <= max {
        let byte = bytes[at];
        let length = match byte {
            b'\'' | b'"' | b'`' => bytes[at + 1..]
                .iter()
                .position(|b| *b == byte)
                .map_or(bytes.len(), |n| n + 2),
            b'-' if bytes[at..].starts_with(b"--") => bytes[at..]
                .iter()
                .position(|b| *b == b'\n')
                .unwrap_or(bytes.len()),
            b if b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80 => bytes[at..]
                .iter()
                .position(|b| !(b.is_ascii_alphanumeric() || *b == b'_' || *b >= 0x80))
                .unwrap_or(bytes.len()),
            _ => 1,
        };
        // Blanks are tokens for the native tokenizer, one for each.
        count += 1;
        at += length.max(1);
    }
    count
}
