//! Reading the tokens of one statement.
//!
//! A cursor moves forward only. What it does not understand itself, it hands to
//! the native parser and goes on behind the part that was read.

use std::ops::Range;

use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Word};

use crate::ast::{DropBehavior, Position, SourceExpr};
use crate::dialect::GatewayDialect;
use crate::error::{ParseError, ParseErrorKind};
use crate::lexer::Lexeme;
use crate::limits::exceeded;
use crate::name::{FieldPath, Ident, ObjectName, SchemaName, fold, is_reserved};

/// How deep the native parser may recurse. The nesting limit is the one that
/// users meet; this one stops chains of prefixes such as `NOT NOT …`.
const NATIVE_RECURSION_MAX: usize = 150;

/// The tokens of one statement and a place among them.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    sql: &'a str,
    lexemes: &'a [Lexeme],
    terminator: Option<&'a Lexeme>,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(sql: &'a str, lexemes: &'a [Lexeme], terminator: Option<&'a Lexeme>) -> Self {
        Self { sql, lexemes, terminator, at: 0 }
    }

    // Looking.

    pub(crate) fn peek(&self) -> Option<&'a Token> {
        self.peek_nth(0)
    }

    pub(crate) fn peek_nth(&self, ahead: usize) -> Option<&'a Token> {
        self.lexemes.get(self.at + ahead).map(|lexeme| &lexeme.token.token)
    }

    pub(crate) fn at_end(&self) -> bool {
        self.at >= self.lexemes.len()
    }

    pub(crate) fn mark(&self) -> usize {
        self.at
    }

    /// Returns the index behind the last token.
    pub(crate) fn end(&self) -> usize {
        self.lexemes.len()
    }

    /// Returns where the first token starts, in bytes of the whole text.
    pub(crate) fn start(&self) -> usize {
        self.lexemes.first().map_or(0, |lexeme| lexeme.bytes.start)
    }

    pub(crate) fn rewind(&mut self, mark: usize) {
        self.at = mark;
    }

    pub(crate) fn advance(&mut self) {
        self.at += 1;
    }

    /// Returns the position of the next token, or of the statement's end.
    pub(crate) fn position(&self) -> Position {
        Position(self.lexemes.get(self.at).or(self.terminator).map(|lexeme| lexeme.position))
    }

    /// Returns the source from the token at `from` up to the next one.
    pub(crate) fn text_since(&self, from: usize) -> &'a str {
        let tokens = self.lexemes.get(from..self.at).unwrap_or_default();
        match (tokens.first(), tokens.last()) {
            (Some(first), Some(last)) => self.slice(first.bytes.start..last.bytes.end),
            _ => "",
        }
    }

    /// Returns the source from the next token to the end of the statement.
    pub(crate) fn rest(&self) -> &'a str {
        match (self.lexemes.get(self.at), self.lexemes.last()) {
            (Some(first), Some(last)) => self.slice(first.bytes.start..last.bytes.end),
            _ => "",
        }
    }

    fn slice(&self, bytes: Range<usize>) -> &'a str {
        self.sql.get(bytes).unwrap_or_default()
    }

    /// Returns whether the next words are these keywords.
    pub(crate) fn looking_at(&self, keywords: &[&str]) -> bool {
        keywords.iter().enumerate().all(|(ahead, keyword)| self.is_keyword(ahead, keyword))
    }

    pub(crate) fn is_keyword(&self, ahead: usize, keyword: &str) -> bool {
        matches!(self.peek_nth(ahead), Some(Token::Word(word)) if is_word(word, keyword))
    }

    /// Returns the next word in upper case when it is not quoted.
    pub(crate) fn keyword_upper(&self, ahead: usize) -> Option<String> {
        match self.peek_nth(ahead) {
            Some(Token::Word(word)) if word.quote_style.is_none() => Some(word.value.to_ascii_uppercase()),
            _ => None,
        }
    }

    // Taking.

    /// Takes the keywords if they all stand next.
    pub(crate) fn take(&mut self, keywords: &[&str]) -> bool {
        let found = self.looking_at(keywords);
        if found {
            self.at += keywords.len();
        }
        found
    }

    /// Takes one of the keywords and returns it as it is spelled here.
    pub(crate) fn take_one(&mut self, keywords: &[&'static str]) -> Option<&'static str> {
        let found = keywords.iter().copied().find(|keyword| self.is_keyword(0, keyword))?;
        self.at += 1;
        Some(found)
    }

    pub(crate) fn take_token(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        if found {
            self.at += 1;
        }
        found
    }

    pub(crate) fn expect(&mut self, keywords: &[&str]) -> Result<(), ParseError> {
        keywords.iter().try_for_each(|keyword| if self.take(&[keyword]) { Ok(()) } else { Err(self.unexpected()) })
    }

    pub(crate) fn expect_token(&mut self, token: &Token) -> Result<(), ParseError> {
        if self.take_token(token) { Ok(()) } else { Err(self.unexpected()) }
    }

    pub(crate) fn expect_end(&self) -> Result<(), ParseError> {
        if self.at_end() { Ok(()) } else { Err(self.unexpected()) }
    }

    pub(crate) fn if_exists(&mut self) -> bool {
        self.take(&["IF", "EXISTS"])
    }

    pub(crate) fn if_not_exists(&mut self) -> bool {
        self.take(&["IF", "NOT", "EXISTS"])
    }

    pub(crate) fn drop_behavior(&mut self) -> Option<DropBehavior> {
        match self.take_one(&["CASCADE", "RESTRICT"])? {
            "CASCADE" => Some(DropBehavior::Cascade),
            _ => Some(DropBehavior::Restrict),
        }
    }

    /// Takes a name: quoted, or unquoted and not reserved.
    pub(crate) fn ident(&mut self) -> Result<Ident, ParseError> {
        let ident = match self.peek() {
            Some(Token::Word(word)) => name_of(word),
            _ => None,
        };
        let ident = ident.ok_or_else(|| self.unexpected())?;
        self.at += 1;
        Ok(ident)
    }

    /// Takes any word as a name, reserved or not, as is allowed behind a dot.
    pub(crate) fn any_word(&mut self) -> Result<String, ParseError> {
        match self.peek() {
            Some(Token::Word(word)) => {
                self.at += 1;
                Ok(match word.quote_style {
                    Some(_) => word.value.clone(),
                    None => fold(&word.value),
                })
            }
            _ => Err(self.unexpected()),
        }
    }

    pub(crate) fn dotted(&mut self) -> Result<Vec<String>, ParseError> {
        let mut parts = vec![self.ident()?.into_string()];
        while self.take_token(&Token::Period) {
            parts.push(self.any_word()?);
        }
        Ok(parts)
    }

    pub(crate) fn object_name(&mut self) -> Result<ObjectName, ParseError> {
        let position = self.position();
        let parts = self.dotted()?;
        let written = parts.join(".");
        ObjectName::from_parts(parts).ok_or_else(|| too_many_parts(&written, position))
    }

    pub(crate) fn schema_name(&mut self) -> Result<SchemaName, ParseError> {
        let position = self.position();
        let mut parts = self.dotted()?;
        let schema = parts.pop().unwrap_or_default();
        let database = parts.pop();
        if !parts.is_empty() {
            return Err(too_many_parts(&schema, position));
        }
        Ok(SchemaName { database, schema })
    }

    pub(crate) fn field_path(&mut self) -> Result<FieldPath, ParseError> {
        let parts = self.dotted()?;
        FieldPath::from_parts(parts).ok_or_else(|| self.unexpected())
    }

    /// Takes a string literal of any form.
    pub(crate) fn string(&mut self) -> Result<String, ParseError> {
        let text = match self.peek() {
            Some(
                Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) | Token::UnicodeStringLiteral(text),
            ) => text.clone(),
            Some(Token::DollarQuotedString(text)) => text.value.clone(),
            _ => return Err(self.unexpected()),
        };
        self.at += 1;
        Ok(text)
    }

    pub(crate) fn is_string(&self, ahead: usize) -> bool {
        matches!(
            self.peek_nth(ahead),
            Some(
                Token::SingleQuotedString(_)
                    | Token::EscapedStringLiteral(_)
                    | Token::UnicodeStringLiteral(_)
                    | Token::DollarQuotedString(_)
            )
        )
    }

    /// Takes a number with an optional sign, as it is written.
    pub(crate) fn number(&mut self) -> Result<String, ParseError> {
        let mark = self.at;
        let negative = match self.peek() {
            Some(Token::Minus) => true,
            Some(Token::Plus) => false,
            _ => {
                return self.digits();
            }
        };
        self.at += 1;
        match self.digits() {
            Ok(digits) => Ok(if negative { format!("-{digits}") } else { digits }),
            Err(_) => {
                self.at = mark;
                Err(self.unexpected())
            }
        }
    }

    fn digits(&mut self) -> Result<String, ParseError> {
        match self.peek() {
            Some(Token::Number(digits, _)) => {
                self.at += 1;
                Ok(digits.replace('_', ""))
            }
            _ => Err(self.unexpected()),
        }
    }

    /// Takes an integer that fits.
    pub(crate) fn integer<T: std::str::FromStr>(&mut self) -> Result<T, ParseError> {
        let mark = self.at;
        let number = self.number()?;
        number.parse().map_err(|_| {
            self.at = mark;
            self.unexpected()
        })
    }

    /// Takes `LIMIT <n>` with n within 1 and `max`.
    pub(crate) fn limit(&mut self, max: u32) -> Result<Option<u32>, ParseError> {
        if !self.take(&["LIMIT"]) {
            return Ok(None);
        }
        let position = self.position();
        let number = self.number()?;
        match number.parse() {
            Ok(limit) if (1..=max).contains(&limit) => Ok(Some(limit)),
            _ => Err(ParseError::new(ParseErrorKind::BadOptionValue, format!("invalid LIMIT \"{number}\""))
                .with_detail(format!("LIMIT takes an integer from 1 to {max}."))
                .at(position.get())),
        }
    }

    /// Takes items with commas between them, at least one.
    pub(crate) fn comma_separated<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, ParseError>,
    ) -> Result<Vec<T>, ParseError> {
        let mut items = vec![item(self)?];
        while self.take_token(&Token::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Takes items in parentheses, at least one.
    pub(crate) fn parenthesized<T>(
        &mut self,
        item: impl FnMut(&mut Self) -> Result<T, ParseError>,
    ) -> Result<Vec<T>, ParseError> {
        self.expect_token(&Token::LParen)?;
        let items = self.comma_separated(item)?;
        self.expect_token(&Token::RParen)?;
        Ok(items)
    }

    // Parts.

    /// Returns a cursor over the tokens up to the next comma outside brackets.
    pub(crate) fn until_comma(&self) -> Self {
        let mut depth = 0_usize;
        let mut end = self.lexemes.len();
        for (index, lexeme) in self.lexemes.iter().enumerate().skip(self.at) {
            match lexeme.token.token {
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
                Token::Comma if depth == 0 => {
                    end = index;
                    break;
                }
                _ => {}
            }
        }
        self.up_to(end)
    }

    /// Returns a cursor that ends before the token at index `end`.
    pub(crate) fn up_to(&self, end: usize) -> Self {
        let end = end.min(self.lexemes.len());
        let terminator = self.lexemes.get(end).or(self.terminator);
        Self { sql: self.sql, lexemes: &self.lexemes[..end], terminator, at: self.at }
    }

    /// Returns the tokens from the next one on, each replaced or left out as
    /// `spell` says; it is given the keyword that stood before.
    pub(crate) fn respelled(&self, spell: impl Fn(&str, &Token) -> Vec<Token>) -> Vec<Lexeme> {
        let mut before = String::new();
        let mut respelled = Vec::with_capacity(self.lexemes.len());
        for (index, lexeme) in self.lexemes.iter().enumerate().skip(self.at) {
            for token in spell(&before, &lexeme.token.token) {
                let token = TokenWithSpan { token, span: lexeme.token.span };
                respelled.push(Lexeme { token, ..lexeme.clone() });
            }
            // The value of an option stands between its word and the next one.
            if let Some(word) = self.keyword_upper(index - self.at) {
                before = word;
            }
        }
        respelled
    }

    /// Returns a cursor over other tokens of the same statement.
    pub(crate) fn over(cursor: &Self, lexemes: &'a [Lexeme]) -> Self {
        Self { sql: cursor.sql, lexemes, terminator: cursor.terminator, at: 0 }
    }

    /// Returns the index behind the bracket that closes the one at `open`.
    pub(crate) fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for (index, lexeme) in self.lexemes.iter().enumerate().skip(open) {
            match lexeme.token.token {
                Token::LParen => depth += 1,
                Token::RParen => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return Some(index + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }

    pub(crate) fn token_at(&self, index: usize) -> Option<&'a Token> {
        self.lexemes.get(index).map(|lexeme| &lexeme.token.token)
    }

    // The native parser.

    /// Hands the rest to the native parser and goes on behind what it read.
    pub(crate) fn native<T>(
        &mut self,
        read: impl FnOnce(&mut Parser<'_>) -> Result<T, ParserError>,
    ) -> Result<T, ParseError> {
        let (tokens, origins) = native_tokens(&self.lexemes[self.at.min(self.lexemes.len())..]);
        let behind = |index: usize| origins.get(index).map_or(self.lexemes.len(), |origin| self.at + origin);
        let mut parser =
            Parser::new(&GatewayDialect).with_recursion_limit(NATIVE_RECURSION_MAX).with_tokens_with_locations(tokens);
        match read(&mut parser) {
            Ok(value) => {
                self.at = behind(parser.index());
                Ok(value)
            }
            Err(error) => {
                let next = behind(parser.index());
                Err(self.native_error(error, next))
            }
        }
    }

    /// Takes an expression with its source.
    pub(crate) fn expression(&mut self) -> Result<SourceExpr, ParseError> {
        let start = self.at;
        let position = self.position();
        let expr = self.native(|parser| parser.parse_expr())?;
        Ok(SourceExpr { expr, text: self.text_since(start).to_owned(), position })
    }

    fn native_error(&self, error: ParserError, next: usize) -> ParseError {
        let message = match error {
            ParserError::RecursionLimitExceeded => {
                return exceeded("stack depth limit exceeded").at(self.position().get());
            }
            ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
        };
        let located = location(&message)
            .and_then(|location| self.lexemes.iter().position(|lexeme| lexeme.token.span.start == location));
        let expected = message.starts_with("Expected");
        let index = match located {
            Some(index) => index,
            None if expected => self.lexemes.len(),
            None => next,
        };
        let problem = self.unexpected_at(index);
        if expected { problem } else { problem.with_detail(message) }
    }

    // Errors.

    /// Returns the error that the next token should not be there.
    pub(crate) fn unexpected(&self) -> ParseError {
        self.unexpected_at(self.at)
    }

    fn unexpected_at(&self, index: usize) -> ParseError {
        match self.lexemes.get(index).or(self.terminator) {
            None => ParseError::new(ParseErrorKind::Syntax, "syntax error at end of input")
                .at(Some(self.sql.chars().count() + 1)),
            Some(lexeme) => ParseError::new(
                ParseErrorKind::Syntax,
                format!("syntax error at or near \"{}\"", self.slice(lexeme.bytes.clone())),
            )
            .at(Some(lexeme.position)),
        }
    }

    /// Returns the error that something is understood and refused.
    pub(crate) fn refuse(&self, what: impl AsRef<str>, hint: &str) -> ParseError {
        let message = format!("{} is not supported", what.as_ref());
        ParseError::not_supported(message, hint).at(self.position().get())
    }
}

/// Returns the tokens for the native parser and the index that each came from.
///
/// `FOR SYSTEM_TIME AS OF VERSION 3` becomes `… VERSION(3)`: the native parser
/// takes an expression there, and this is the nearest one. `TABLE t` becomes
/// `SELECT * FROM t`: the native parser loses the two tokens behind `t`.
/// A column's type `real ARRAY` becomes `real[]`, which is the same. `FOR NO KEY
/// UPDATE` becomes `FOR UPDATE` and `FOR KEY SHARE` becomes `FOR SHARE`: the native
/// parser has no such words, and without foreign keys the stronger lock is as good.
fn native_tokens(lexemes: &[Lexeme]) -> (Vec<TokenWithSpan>, Vec<usize>) {
    let mut tokens = Vec::with_capacity(lexemes.len());
    let mut origins = Vec::with_capacity(lexemes.len());
    for (index, lexeme) in lexemes.iter().enumerate() {
        let wrapped = index >= 5 && is_version_value(&lexemes[index - 5..=index]);
        let span = lexeme.token.span;
        if is_table_query(lexemes, index) {
            let select = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
            for token in select {
                tokens.push(TokenWithSpan { token, span });
                origins.push(index);
            }
            continue;
        }
        if is_of_weaker_lock(lexemes, index) {
            continue;
        }
        if is_array_of_column(lexemes, index) {
            for token in [Token::LBracket, Token::RBracket] {
                tokens.push(TokenWithSpan { token, span });
                origins.push(index);
            }
            continue;
        }
        if wrapped {
            tokens.push(TokenWithSpan { token: Token::LParen, span });
            origins.push(index);
        }
        tokens.push(lexeme.token.clone());
        origins.push(index);
        if wrapped {
            tokens.push(TokenWithSpan { token: Token::RParen, span });
            origins.push(index);
        }
    }
    (tokens, origins)
}

/// Returns whether the token at `at` is one that makes a row lock a weaker one.
fn is_of_weaker_lock(lexemes: &[Lexeme], at: usize) -> bool {
    let reads = |from: Option<usize>, words: &[&str]| {
        from.and_then(|from| lexemes.get(from..from + words.len())).is_some_and(|found| {
            let pairs = found.iter().zip(words);
            pairs.into_iter().all(|(found, word)| matches!(&found.token.token, Token::Word(it) if is_word(it, word)))
        })
    };
    let update = ["FOR", "NO", "KEY", "UPDATE"];
    reads(at.checked_sub(1), &update)
        || reads(at.checked_sub(2), &update)
        || reads(at.checked_sub(1), &["FOR", "KEY", "SHARE"])
}

/// Returns whether the token at `at` is the `TABLE` of a query `TABLE <name>`.
fn is_table_query(lexemes: &[Lexeme], at: usize) -> bool {
    const BEFORE: [&str; 6] = ["UNION", "EXCEPT", "INTERSECT", "ALL", "DISTINCT", "AS"];
    const BEHIND: [&str; 11] =
        ["UNION", "EXCEPT", "INTERSECT", "ORDER", "LIMIT", "OFFSET", "FETCH", "FOR", "ON", "RETURNING", "WITH"];
    let token = |index: usize| lexemes.get(index).map(|lexeme| &lexeme.token.token);
    let is_one = |index: usize, words: &[&str]| matches!(token(index), Some(Token::Word(word)) if words.iter().any(|keyword| is_word(word, keyword)));
    let is_name = |index: usize| matches!(token(index), Some(Token::Word(word)) if name_of(word).is_some());
    if !is_one(at, &["TABLE"]) || !is_name(at + 1) {
        return false;
    }
    // A change begins with a keyword and the table; what follows is its query.
    let starts = at == 0
        || token(at - 1) == Some(&Token::LParen)
        || is_one(at - 1, &BEFORE)
        || at > 2 && is_one(0, &["INSERT"]) && token(at - 1) != Some(&Token::Period);
    let mut behind = at + 2;
    while token(behind) == Some(&Token::Period) {
        behind += 2;
    }
    let ends = behind >= lexemes.len() || token(behind) == Some(&Token::RParen) || is_one(behind, &BEHIND);
    starts && ends
}

/// Returns whether the token at `at` is the `ARRAY` behind the type of a column of CREATE TABLE.
fn is_array_of_column(lexemes: &[Lexeme], at: usize) -> bool {
    let token = |index: usize| lexemes.get(index).map(|lexeme| &lexeme.token.token);
    let is_one = |index: usize, words: &[&str]| matches!(token(index), Some(Token::Word(word)) if words.iter().any(|keyword| is_word(word, keyword)));
    at > 3
        && is_one(0, &["TABLE", "TEMP", "TEMPORARY", "LOCAL", "GLOBAL"])
        && is_one(at, &["ARRAY"])
        && matches!(token(at - 1), Some(Token::Word(_) | Token::RParen))
        && matches!(token(at + 1), Some(Token::Comma | Token::RParen))
}

fn is_version_value(lexemes: &[Lexeme]) -> bool {
    let word = |index: usize, keyword: &str| matches!(&lexemes[index].token.token, Token::Word(word) if is_word(word, keyword));
    let value =
        matches!(&lexemes[5].token.token, Token::Number(..) | Token::SingleQuotedString(_) | Token::Placeholder(_));
    value
        && ["FOR", "SYSTEM_TIME", "AS", "OF"].iter().enumerate().all(|(i, kw)| word(i, kw))
        && (word(4, "VERSION") || word(4, "TAG"))
}

fn is_word(word: &Word, keyword: &str) -> bool {
    word.quote_style.is_none() && word.value.eq_ignore_ascii_case(keyword)
}

fn name_of(word: &Word) -> Option<Ident> {
    match word.quote_style {
        Some(_) => Some(Ident::new(word.value.clone())),
        None => {
            let name = fold(&word.value);
            (!is_reserved(&name)).then(|| Ident::new(name))
        }
    }
}

fn too_many_parts(name: &str, position: Position) -> ParseError {
    ParseError::new(ParseErrorKind::Syntax, format!("improper qualified name (too many dotted names): {name}"))
        .with_hint("A nested namespace is one quoted name with its components joined by $.")
        .at(position.get())
}

/// Reads the place that the native parser puts at the end of a message.
fn location(message: &str) -> Option<Location> {
    let (_, place) = message.rsplit_once(" at Line: ")?;
    let (line, column) = place.split_once(", Column: ")?;
    Some(Location { line: line.parse().ok()?, column: column.trim().parse().ok()? })
}
