//! PostgreSQL's dialect of the native parser with our two additions: names may
//! stand between backticks, and a table may be read at an earlier version; and
//! one correction, [`Dialect::parse_infix`].
//!
//! Everything that PostgreSQL's dialect answers for itself is passed on to it;
//! the rest are the defaults, which it takes too.

use std::any::TypeId;

use sqlparser::ast::Expr;
use sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};

const POSTGRES: PostgreSqlDialect = PostgreSqlDialect {};

/// The dialect that all text is read in.
#[derive(Debug)]
pub(crate) struct GatewayDialect;

impl Dialect for GatewayDialect {
    fn dialect(&self) -> TypeId {
        POSTGRES.dialect()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '`' || POSTGRES.is_delimited_identifier_start(ch)
    }

    // A backtick starts a name, so it cannot be part of an operator.
    fn is_custom_operator_part(&self, ch: char) -> bool {
        ch != '`' && POSTGRES.is_custom_operator_part(ch)
    }

    fn supports_table_versioning(&self) -> bool {
        true
    }

    // Comments are taken out before the parser sees the tokens.
    fn supports_comment_optimizer_hint(&self) -> bool {
        false
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        POSTGRES.identifier_quote_style(identifier)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        POSTGRES.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        POSTGRES.is_identifier_part(ch)
    }

    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        POSTGRES.is_reserved_for_identifier(keyword)
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        POSTGRES.get_next_precedence(parser)
    }

    /// `IS [NOT] DISTINCT FROM` binds its right side as tightly as its left one;
    /// sqlparser takes all that follows.
    fn parse_infix(&self, parser: &mut Parser, left: &Expr, _: u8) -> Option<Result<Expr, ParserError>> {
        let negated = if parser.parse_keywords(&[Keyword::IS, Keyword::DISTINCT, Keyword::FROM]) {
            false
        } else if parser.parse_keywords(&[Keyword::IS, Keyword::NOT, Keyword::DISTINCT, Keyword::FROM]) {
            true
        } else {
            return None;
        };
        let compared = parser.parse_subexpr(self.prec_value(Precedence::Is)).map(|right| {
            let (left, right) = (Box::new(left.clone()), Box::new(right));
            if negated { Expr::IsNotDistinctFrom(left, right) } else { Expr::IsDistinctFrom(left, right) }
        });
        Some(compared)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        POSTGRES.prec_value(precedence)
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        POSTGRES.supports_filter_during_aggregation()
    }

    fn supports_group_by_expr(&self) -> bool {
        POSTGRES.supports_group_by_expr()
    }

    fn allow_extract_custom(&self) -> bool {
        POSTGRES.allow_extract_custom()
    }

    fn allow_extract_single_quotes(&self) -> bool {
        POSTGRES.allow_extract_single_quotes()
    }

    fn supports_create_index_with_clause(&self) -> bool {
        POSTGRES.supports_create_index_with_clause()
    }

    fn supports_explain_with_utility_options(&self) -> bool {
        POSTGRES.supports_explain_with_utility_options()
    }

    fn supports_listen_notify(&self) -> bool {
        POSTGRES.supports_listen_notify()
    }

    fn supports_factorial_operator(&self) -> bool {
        POSTGRES.supports_factorial_operator()
    }

    fn supports_bitwise_shift_operators(&self) -> bool {
        POSTGRES.supports_bitwise_shift_operators()
    }

    fn supports_comment_on(&self) -> bool {
        POSTGRES.supports_comment_on()
    }

    fn supports_load_extension(&self) -> bool {
        POSTGRES.supports_load_extension()
    }

    fn supports_named_fn_args_with_colon_operator(&self) -> bool {
        POSTGRES.supports_named_fn_args_with_colon_operator()
    }

    // It makes the native parser read every argument twice, so that nested calls
    // take time exponential in their depth. All that is lost is the colon form
    // `json_object('key': value)`.
    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }

    fn supports_empty_projections(&self) -> bool {
        POSTGRES.supports_empty_projections()
    }

    fn supports_nested_comments(&self) -> bool {
        POSTGRES.supports_nested_comments()
    }

    fn supports_string_escape_constant(&self) -> bool {
        POSTGRES.supports_string_escape_constant()
    }

    fn supports_numeric_literal_underscores(&self) -> bool {
        POSTGRES.supports_numeric_literal_underscores()
    }

    fn supports_array_typedef_with_brackets(&self) -> bool {
        POSTGRES.supports_array_typedef_with_brackets()
    }

    fn supports_geometric_types(&self) -> bool {
        POSTGRES.supports_geometric_types()
    }

    fn supports_set_names(&self) -> bool {
        POSTGRES.supports_set_names()
    }

    fn supports_alter_column_type_using(&self) -> bool {
        POSTGRES.supports_alter_column_type_using()
    }

    fn supports_notnull_operator(&self) -> bool {
        POSTGRES.supports_notnull_operator()
    }

    fn supports_interval_options(&self) -> bool {
        POSTGRES.supports_interval_options()
    }

    fn supports_insert_table_alias(&self) -> bool {
        POSTGRES.supports_insert_table_alias()
    }

    fn supports_create_table_like_parenthesized(&self) -> bool {
        POSTGRES.supports_create_table_like_parenthesized()
    }

    fn supports_select_wildcard_with_alias(&self) -> bool {
        POSTGRES.supports_select_wildcard_with_alias()
    }

    fn supports_comma_separated_trim(&self) -> bool {
        POSTGRES.supports_comma_separated_trim()
    }

    fn supports_xml_expressions(&self) -> bool {
        POSTGRES.supports_xml_expressions()
    }

    fn supports_unicode_string_literal(&self) -> bool {
        POSTGRES.supports_unicode_string_literal()
    }
}
