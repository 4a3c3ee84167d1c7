//! Reading a list of options into a typed set.

use crate::error::{ParseError, ParseErrorKind};
use crate::options::{OptionValue, SqlOption};

/// Where each option of a set stood; never part of what makes sets equal.
#[derive(Debug, Clone, Default)]
pub struct OptionPositions(Vec<(&'static str, Option<usize>)>);

impl OptionPositions {
    /// Returns the position of an option's name in the text.
    pub fn get(&self, name: &str) -> Option<usize> {
        self.0.iter().find(|(known, _)| *known == name).and_then(|(_, position)| *position)
    }
}

impl PartialEq for OptionPositions {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

/// The options of one statement: what it is called and which names it has.
#[derive(Debug)]
pub(crate) struct OptionReader {
    statement: &'static str,
    supported: &'static [&'static str],
    positions: OptionPositions,
}

/// One known option on its way into a typed set.
#[derive(Debug)]
pub(crate) struct KnownOption<'a> {
    pub(crate) name: &'static str,
    value: &'a OptionValue,
    position: Option<usize>,
}

impl OptionReader {
    pub(crate) fn new(statement: &'static str, supported: &'static [&'static str]) -> Self {
        Self { statement, supported, positions: OptionPositions::default() }
    }

    /// Returns the option under its one spelling; refuses unknown names and a
    /// second option of the same name.
    pub(crate) fn known<'a>(&mut self, option: &'a SqlOption) -> Result<KnownOption<'a>, ParseError> {
        let position = option.position.get();
        let name = self
            .supported
            .iter()
            .copied()
            .find(|name| name.eq_ignore_ascii_case(&option.name))
            .ok_or_else(|| unknown_option(self.statement, &option.name, self.supported).at(position))?;
        if self.positions.0.iter().any(|(seen, _)| *seen == name) {
            return Err(duplicate_option(name).at(position));
        }
        self.positions.0.push((name, position));
        Ok(KnownOption { name, value: &option.value, position })
    }

    pub(crate) fn into_positions(self) -> OptionPositions {
        self.positions
    }
}

impl KnownOption<'_> {
    /// Returns an integer within `min..=max`.
    pub(crate) fn integer(&self, min: u64, max: u64) -> Result<u64, ParseError> {
        let number = match self.value {
            OptionValue::Number(text) | OptionValue::String(text) => text.trim().parse().ok(),
            OptionValue::Boolean(_) | OptionValue::Word(_) => None,
        };
        number.filter(|number| (min..=max).contains(number)).ok_or_else(|| {
            let range = match max {
                u64::MAX => format!("an integer of at least {min}"),
                max => format!("an integer from {min} to {max}"),
            };
            self.invalid(&range)
        })
    }

    /// Returns an integer within `min..=max`, where `max` fits 32 bits.
    pub(crate) fn integer_u32(&self, min: u32, max: u32) -> Result<u32, ParseError> {
        let number = match self.value {
            OptionValue::Number(text) | OptionValue::String(text) => text.trim().parse().ok(),
            OptionValue::Boolean(_) | OptionValue::Word(_) => None,
        };
        number
            .filter(|number| (min..=max).contains(number))
            .ok_or_else(|| self.invalid(&format!("an integer from {min} to {max}")))
    }

    /// Returns a finite number for which `accept` holds; `range` says which.
    pub(crate) fn number(&self, accept: impl Fn(f64) -> bool, range: &str) -> Result<f64, ParseError> {
        let number = match self.value {
            OptionValue::Number(text) | OptionValue::String(text) => text.trim().parse::<f64>().ok(),
            OptionValue::Boolean(_) | OptionValue::Word(_) => None,
        };
        number.filter(|number| number.is_finite() && accept(*number)).ok_or_else(|| self.invalid(range))
    }

    /// Returns a boolean.
    pub(crate) fn boolean(&self) -> Result<bool, ParseError> {
        self.value.as_bool().ok_or_else(|| self.invalid("true or false"))
    }

    /// Returns a text that is not empty and for which `accept` holds.
    pub(crate) fn text(&self, accept: impl Fn(&str) -> bool, range: &str) -> Result<String, ParseError> {
        let text = self.value.as_str();
        if text.is_empty() || !accept(text) {
            return Err(self.invalid(range));
        }
        Ok(text.to_owned())
    }

    pub(crate) fn invalid(&self, range: &str) -> ParseError {
        ParseError::new(
            ParseErrorKind::BadOptionValue,
            format!("invalid value for option \"{}\": \"{}\"", self.name, self.value.as_str()),
        )
        .with_detail(format!("Option \"{}\" takes {range}.", self.name))
        .at(self.position)
    }
}

pub(crate) fn unknown_option(statement: &str, name: &str, supported: &[&str]) -> ParseError {
    ParseError::new(ParseErrorKind::UnknownOption, format!("unrecognized option \"{name}\" for {statement}"))
        .with_hint(format!("Supported options are {}.", supported.join(", ")))
}

pub(crate) fn duplicate_option(name: &str) -> ParseError {
    ParseError::new(ParseErrorKind::DuplicateOption, format!("option \"{name}\" specified more than once"))
}
