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
    /// How high the tree of an expression may become: every operator, cast and
    /// subscript counts one, every set operation and join four. In an optimized
    /// build the default takes half of a 2 MiB stack to copy.
    pub chain_terms_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { sql_bytes_max: 16 * 1024 * 1024, nesting_depth_max: 32, tokens_max: 1_000_000, chain_terms_max: 1_000 }
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
        let mut before = TokenKind::Open;
        let mut dots = 0;
        let mut interval = false;
        let mut container = false;
        for lexeme in lexemes {
            let kind = TokenKind::of(&lexeme.token.token);
            if kind == TokenKind::Close && levels.len() > 1 {
                let closed = levels.pop().unwrap_or_default();
                if let Some(level) = levels.last_mut() {
                    level.height = level.height.max(closed.total() + 1);
                }
            }
            let Some(level) = levels.last_mut() else {
                continue;
            };
            match kind {
                TokenKind::Operator | TokenKind::OpenAfter => level.height += 1,
                TokenKind::Link => level.links += 1,
                TokenKind::Comma => level.finish(),
                // Behind an operator such a word is a name.
                TokenKind::Break if before == TokenKind::Operand => level.finish(),
                TokenKind::Break | TokenKind::Open | TokenKind::Close | TokenKind::Operand | TokenKind::Other => {}
            }
            // Both take the native parser time or stack out of proportion, and
            // neither means anything.
            dots = match &lexeme.token.token {
                Token::Period => dots + 1,
                Token::Word(_) => dots,
                _ => 0,
            };
            // Each is a type within a type, which takes as much as many operators.
            if container && lexeme.token.token == Token::Lt {
                level.height += TYPE_WEIGHT;
            }
            container = matches!(&lexeme.token.token, Token::Word(word)
                if matches!(word.keyword, Keyword::ARRAY | Keyword::STRUCT | Keyword::MAP));
            let again = interval;
            interval = matches!(&lexeme.token.token, Token::Word(word)
                if word.keyword == Keyword::INTERVAL);
            if dots > NAME_PARTS_MAX || (again && interval) {
                return Err(exceeded("statement is too complex").at(Some(lexeme.position)));
            }
            if level.total() >= self.chain_terms_max {
                return Err(exceeded("statement is too complex")
                    .with_detail(format!(
                        "An expression has at most {} chained operators, a query {} set \
                         operations and joins.",
                        self.chain_terms_max,
                        self.chain_terms_max / LINK_WEIGHT
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
            before = if kind == TokenKind::Close { TokenKind::Operand } else { kind };
        }
        Ok(())
    }

    fn too_many_tokens(&self) -> ParseError {
        exceeded("statement is too complex").with_detail(format!("A text has at most {} tokens.", self.tokens_max))
    }
}

pub(crate) fn exceeded(message: &str) -> ParseError {
    ParseError::new(ParseErrorKind::LimitExceeded, message)
}

/// How many operators a type within a type counts as.
const TYPE_WEIGHT: usize = 20;
/// How many dots a name may have.
const NAME_PARTS_MAX: usize = 64;
/// How many operators a set operation or join counts as: copying its tree takes
/// about four times the stack.
const LINK_WEIGHT: usize = 4;

/// An upper bound on the height of the trees between two brackets.
///
/// Every operator may stand on top of all that the expression held before, the
/// brackets within it included.
#[derive(Debug, Default)]
struct Level {
    /// Of the present expression.
    height: usize,
    /// Of the tallest expression before it.
    tallest: usize,
    /// Set operations and joins.
    links: usize,
}

impl Level {
    fn finish(&mut self) {
        self.tallest = self.tallest.max(self.height);
        self.height = 0;
    }

    fn total(&self) -> usize {
        self.tallest.max(self.height) + LINK_WEIGHT * self.links
    }
}

/// What a token does to the depth and height of a tree.
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
    /// Joins two queries or tables.
    Link,
    /// Ends an expression.
    Comma,
    /// Ends an expression when one stands before it.
    Break,
    /// A literal or a word that is no keyword: the end of an expression, unless
    /// an operator follows.
    Operand,
    /// Anything else.
    Other,
}

impl TokenKind {
    fn of(token: &Token) -> Self {
        match token {
            Token::LParen | Token::LBrace => Self::Open,
            Token::LBracket => Self::OpenAfter,
            Token::RParen | Token::RBracket | Token::RBrace => Self::Close,
            Token::Comma | Token::SemiColon => Self::Comma,
            Token::Word(word) => Self::of_keyword(word.keyword),
            Token::EOF | Token::Char(_) | Token::Period | Token::Whitespace(_) => Self::Other,
            Token::Number(..)
            | Token::Placeholder(_)
            | Token::SingleQuotedString(_)
            | Token::DollarQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::NationalStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::SingleQuotedByteStringLiteral(_) => Self::Operand,
            // What is not known here is an operator.
            _ => Self::Operator,
        }
    }

    fn of_keyword(keyword: Keyword) -> Self {
        match keyword {
            Keyword::CASE => Self::Open,
            Keyword::END => Self::Close,
            Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT | Keyword::JOIN => Self::Link,
            Keyword::NoKeyword => Self::Operand,
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
            // None of them is part of an operator, but for the FROM of IS DISTINCT
            // FROM, which stands behind a keyword.
            Keyword::SELECT
            | Keyword::FROM
            | Keyword::WHERE
            | Keyword::HAVING
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
            b'\'' | b'"' | b'`' => bytes[at + 1..].iter().position(|b| *b == byte).map_or(bytes.len(), |n| n + 2),
            b'-' if bytes[at..].starts_with(b"--") => {
                bytes[at..].iter().position(|b| *b == b'\n').unwrap_or(bytes.len())
            }
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
