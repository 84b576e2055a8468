//! Strings: what their keywords say of them, as raw text and as JSON.

use std::fmt::Write as _;

use crate::error::Error;
use crate::json::write_string;

use super::formats;
use super::lark;
use super::lengths::any_between;
use super::object::as_count;
use super::pattern;
use super::schema::{Branch, Id, Schemas};

/// Longest string whose length is held to.
const LENGTH_LIMIT: usize = 16_384;

/// Characters of a JSON string, spelled as the prompt format spells them.
const CHARACTER: &str = r#"(?:[^"\\\x00-\x1F]|\\["\\bfnrt]|\\u00(?:0[0-7bef]|1[0-9a-f]))"#;

/// Any JSON string.
pub(super) fn json_string() -> String {
    format!("\"{CHARACTER}*\"")
}

/// What a string must be like.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Strings {
    /// An expression that all of the string matches.
    expression: Option<String>,
    least: usize,
    most: Option<usize>,
}

impl Strings {
    /// What the parts of a branch say of strings; `None` if no string fits.
    pub(super) fn of(schemas: &Schemas<'_>, parts: &[Id]) -> Result<Option<Self>, Error> {
        let mut strings = Self::default();
        for &id in parts {
            strings.lengths(schemas, id)?;
            if let Some(value) = schemas.keyword(id, "pattern") {
                match value.as_str().ok_or_else(|| "it must be a string".to_owned()).and_then(pattern::search) {
                    Ok(expression) => strings.add(schemas, id, "pattern", expression)?,
                    Err(detail) => schemas.refuse(id, "pattern", &detail)?,
                }
            }
            if let Some(value) = schemas.keyword(id, "format") {
                match value.as_str().and_then(formats::expression) {
                    Some((expression, most)) => {
                        strings.add(schemas, id, "format", expression)?;
                        strings.limit(most);
                    }
                    None => schemas.refuse(id, "format", &format!("the formats are {}", formats::names()))?,
                }
            }
        }
        let fits = match (&strings.expression, parts.first()) {
            (Some(expression), Some(&id)) => match any_between(expression, strings.least, strings.most) {
                Some(fits) => fits,
                None => {
                    schemas.refuse(id, "", "its pattern is too large beside its lengths")?;
                    strings.expression = None;
                    true
                }
            },
            _ => true,
        };
        let fits = fits && strings.most.is_none_or(|most| strings.least <= most);
        Ok(fits.then_some(strings))
    }

    /// Adds an expression. There can be one: whether several have a text in common would have to be searched for.
    fn add(&mut self, schemas: &Schemas<'_>, id: Id, key: &str, expression: String) -> Result<(), Error> {
        match &self.expression {
            Some(old) if *old != expression => {
                schemas.refuse(id, key, "only one pattern or format of a string is supported")?;
            }
            _ => self.expression = Some(expression),
        }
        Ok(())
    }

    fn limit(&mut self, most: Option<usize>) {
        if let Some(most) = most {
            self.most = Some(self.most.map_or(most, |old| old.min(most)));
        }
    }

    fn lengths(&mut self, schemas: &Schemas<'_>, id: Id) -> Result<(), Error> {
        let length = |key: &'static str| -> Result<Option<usize>, Error> {
            let Some(value) = schemas.keyword(id, key) else { return Ok(None) };
            match as_count(value) {
                Some(length) if length <= LENGTH_LIMIT => Ok(Some(length)),
                Some(length) => {
                    let detail = format!("it is {length}, and at most {LENGTH_LIMIT} is supported");
                    schemas.refuse(id, key, &detail).map(|()| None)
                }
                None => schemas.refuse(id, key, "it must be an integer of at least 0").map(|()| None),
            }
        };
        self.least = self.least.max(length("minLength")?.unwrap_or(0));
        let most = length("maxLength")?;
        self.limit(most);
        Ok(())
    }

    /// Whether a literal fits, as far as lengths say; `None` if there are expressions too.
    pub(super) fn admit(&self, text: &str) -> Option<bool> {
        let length = text.chars().count();
        self.expression.is_none().then_some(length >= self.least && self.most.is_none_or(|most| length <= most))
    }

    fn bounds(&self) -> Option<String> {
        let is_bounded = self.least > 0 || self.most.is_some();
        let most = self.most.map(|most| most.to_string()).unwrap_or_default();
        is_bounded.then(|| format!("{{{},{most}}}", self.least))
    }

    /// The body of a terminal: the string as raw text.
    pub(super) fn raw(&self) -> String {
        let bounds = self.bounds().map(|bounds| format!("(?s:.{bounds})"));
        let all: Vec<_> =
            self.expression.clone().into_iter().chain(bounds).map(|text| lark::expression(&text)).collect();
        if all.is_empty() { lark::expression(pattern::ANYTHING) } else { format!("({})", all.join(" & ")) }
    }

    /// The string as JSON.
    pub(super) fn json(&self, writer: &mut lark::Writer) -> String {
        let Some(expression) = &self.expression else {
            let bounds = self.bounds().unwrap_or_else(|| "*".to_owned());
            return writer.terminal(lark::expression(&format!("\"{CHARACTER}{bounds}\"")));
        };
        let mut schema = String::from("{\"type\": \"string\", \"pattern\": ");
        write_string(&format!("^(?:{expression})$"), &mut schema);
        if self.least > 0 {
            let _ = write!(schema, ", \"minLength\": {}", self.least);
        }
        if let Some(most) = self.most {
            let _ = write!(schema, ", \"maxLength\": {most}");
        }
        schema.push('}');
        writer.rule(format!("%json {schema}"))
    }
}

/// The strings of a branch as the body of a terminal of raw text; `None` if no string fits.
pub(super) fn raw_strings<'v>(schemas: &Schemas<'v>, branch: &Branch<'v>) -> Result<Option<String>, Error> {
    let Some(values) = &branch.values else {
        return Ok(Strings::of(schemas, &branch.parts)?.map(|strings| strings.raw()));
    };
    let texts = super::json::fitting(schemas, branch, values)?;
    let literals = texts.iter().filter_map(|value| value.as_str()).map(lark::literal).collect();
    Ok(lark::either(literals))
}
