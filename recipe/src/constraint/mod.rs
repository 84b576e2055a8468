//! What an answer must match → the text of a grammar that an engine enforces while the model writes.
//!
//! The grammar stands beside the parser that must read what it lets through: whatever it accepts, [`crate::output`] reads back
//! to the same calls and values. Knows schemas and the markup of calls, nothing of protocols, tokens' texts or engines but the
//! dialect that llguidance reads. `schema`, `object` and `disjoint` take JSON Schemas apart; `json`, `strings`, `number`,
//! `pattern` and `formats` write their values; `calls` writes the markup around them; `lark` holds the lines; `memory` keeps
//! what was made.

mod calls;
mod disjoint;
mod formats;
mod json;
mod lark;
mod lengths;
mod memory;
mod number;
mod object;
mod pattern;
mod schema;
mod strings;
mod types;
mod user;

use std::borrow::Cow;

use crate::encoded::{Constraint, Encoded};
use crate::error::{Error, ErrorCode};
use crate::json::{Value, parse};
use crate::special::{Special, Spellings};

use calls::CallWriter;
use json::{JsonWriter, NESTING_LIMIT, Written};
use lark::{TOO_LARGE, Writer, literal};
use memory::Cause;
pub use memory::Grammars;
pub(crate) use schema::Mode;
use schema::Schemas;
use types::Types;

/// What an engine enforces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grammar {
    /// The grammar, in llguidance's dialect of Lark; the answer may end where it ends. Control tokens are `<[id]>`.
    pub text: String,
    /// The end mark of thinking: nothing is held to the grammar before the model has written it.
    pub start_after: Option<u32>,
    /// The mark that wakes the grammar, which describes what follows it; `None` if it is awake from the start.
    pub trigger: Option<u32>,
    /// Whether an answer that the grammar did not see to its end breaks the request.
    pub binding: bool,
}

/// What a grammar must know of a request besides its [`Constraint`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Asked {
    /// The tools, in the order of the constraint's declarations.
    pub(crate) tools: Vec<AskedTool>,
    /// What an answer must match that is no call; `None` if any text will do, or there are no tools.
    pub(crate) beside_calls: Option<Constraint>,
    /// Where the request gives the form of the answer.
    pub(crate) format_path: &'static str,
    /// Whether that form is strict in the sense of OpenAI's protocols.
    pub(crate) is_format_strict: bool,
    /// Whether the prompt already holds the beginning of the answer's text.
    pub(crate) is_continued: bool,
}

/// A declared tool.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AskedTool {
    /// Where the request gives its schema or grammar.
    pub(crate) path: String,
    /// Whether the model was shown it.
    pub(crate) is_shown: bool,
    /// Whether it takes free text.
    pub(crate) is_custom: bool,
    /// How its schema is held to.
    pub(crate) mode: Mode,
}

/// The grammar of the answer to a request; `None` if any answer will do.
pub fn grammar(encoded: &Encoded) -> Result<Option<Grammar>, Error> {
    let Some(constraint) = &encoded.constraint else { return Ok(None) };
    let id = |special| encoded.tokenizer.special_id(encoded.spellings.of(special));
    let cause = Cause {
        constraint: Cow::Borrowed(constraint),
        asked: Cow::Borrowed(&encoded.asked),
        version: encoded.version,
        dsml: id(Special::Dsml),
        thinking_end: id(Special::ThinkingEnd),
        after_thinking: encoded.constrained_after_thinking(),
        starts_in_tool_calls: encoded.parsing.starts_in_tool_calls,
    };
    if let Some(known) = encoded.grammars.find(&cause) {
        return Ok(Some(known));
    }
    let builder = Builder { cause: &cause, spellings: &encoded.spellings, writer: Writer::default() };
    let grammar = match constraint {
        Constraint::ToolCall { rules, .. } => builder.with_calls(rules.required)?,
        format => builder.alone(format)?,
    };
    encoded.grammars.keep(cause, &grammar);
    Ok(Some(grammar))
}

/// Puts a grammar together.
struct Builder<'e> {
    cause: &'e Cause<'e>,
    /// For errors.
    spellings: &'e Spellings,
    writer: Writer,
}

impl Builder<'_> {
    /// The id of a control token, if there is one.
    fn known(&self, special: Special, id: Option<u32>) -> Result<u32, Error> {
        let found = || Error::new(ErrorCode::UnknownControlToken, "", &[("found", &self.spellings.of(special))]);
        id.ok_or_else(found)
    }

    fn finish(self, start: &str, trigger: Option<u32>, binding: bool) -> Result<Grammar, Error> {
        let thinking_end = || self.known(Special::ThinkingEnd, self.cause.thinking_end);
        let start_after = self.cause.after_thinking.then(thinking_end).transpose()?;
        Ok(Grammar { text: self.writer.finish(start), start_after, trigger, binding })
    }

    /// The grammar of an answer in a certain form.
    fn alone(mut self, format: &Constraint) -> Result<Grammar, Error> {
        let start = self.format(format)?;
        self.finish(&start, None, true)
    }

    /// The grammar of an answer that may or must call tools.
    fn with_calls(mut self, is_required: bool) -> Result<Grammar, Error> {
        let dsml = self.known(Special::Dsml, self.cause.dsml)?;
        let Some(calls) = self.calls(dsml)? else { return self.without_calls(is_required) };
        if self.cause.starts_in_tool_calls {
            return self.finish(&calls, None, true);
        }
        let mut markup = CallWriter::new(&mut self.writer, self.cause.version, dsml);
        let (opener, block) = (markup.opener(), markup.opened(&calls));
        match &self.cause.asked.beside_calls {
            _ if is_required => self.finish(&format!("{opener} {block}"), None, true),
            None => self.finish(&block, Some(dsml), false),
            Some(format) => {
                let format = self.format(format)?;
                self.finish(&format!("{format} | {opener} {block}"), None, true)
            }
        }
    }

    /// The grammar of an answer where no tool can be called: control tokens cannot be written, so there are no calls.
    fn without_calls(mut self, is_required: bool) -> Result<Grammar, Error> {
        if is_required {
            let found = "a call where no tool can be called";
            return Err(Error::new(ErrorCode::Unsupported, "tool_choice", &[("found", &found)]));
        }
        let format = self.cause.asked.beside_calls.as_ref();
        let text = match format {
            Some(format) => self.format(format)?,
            None => lark::expression(pattern::ANYTHING),
        };
        self.finish(&text, None, format.is_some())
    }

    /// What follows the opener of a block; `None` if no tool can be called.
    fn calls(&mut self, dsml: u32) -> Result<Option<String>, Error> {
        let Constraint::ToolCall { tools, rules } = &*self.cause.constraint else { return Ok(None) };
        let declarations = parse(tools.as_bytes())?;
        let (mut calls, mut free) = (Vec::new(), Written::default());
        for (tool, asked) in declarations.as_array().unwrap_or_default().iter().zip(&self.cause.asked.tools) {
            let Some(function) = tool.get("function") else { continue };
            let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
            let is_allowed = rules.allowed.as_ref().is_none_or(|allowed| allowed.iter().any(|allowed| allowed == name));
            // The format has no way to write other names.
            let is_sayable = !name.is_empty() && !name.contains(['"', '\n']);
            if asked.is_shown && is_allowed && is_sayable {
                let mut markup = CallWriter::new(&mut self.writer, self.cause.version, dsml);
                markup.written = free;
                calls.extend(call(&mut markup, name, function, asked)?);
                free = markup.written.into_free();
            }
        }
        Ok(CallWriter::new(&mut self.writer, self.cause.version, dsml).calls(calls, rules.single))
    }

    /// What matches an answer in a certain form.
    fn format(&mut self, format: &Constraint) -> Result<String, Error> {
        let asked = &self.cause.asked;
        let path = asked.format_path;
        if asked.is_continued {
            return Err(Error::new(ErrorCode::PrefixConflict, path, &[("found", &"a form of the whole answer")]));
        }
        let invalid = |code| move |detail: String| Error::new(code, path, &[("detail", &detail)]);
        match format {
            Constraint::Json { schema } => {
                let text = schema.as_deref().unwrap_or("{\"type\":\"object\"}");
                let schema = parse(text.as_bytes())?;
                let (schemas, goal) =
                    Schemas::new(&schema, path, if asked.is_format_strict { Mode::Closed } else { Mode::Strict });
                let (style, mut written) = (self.cause.version.float_style(), Written::default());
                let mut json = JsonWriter::new(&mut self.writer, &schemas, style, &mut written);
                let value = json.value(&goal, Types::ALL, NESTING_LIMIT)?;
                if self.writer.is_too_large() {
                    return Err(schemas.fault(goal[0], "", TOO_LARGE));
                }
                value.ok_or_else(|| schemas.fault(goal[0], "", "no value matches it"))
            }
            Constraint::Regex { pattern } => {
                user::regex(pattern).map(|body| self.writer.terminal(body)).map_err(invalid(ErrorCode::InvalidRegex))
            }
            Constraint::Lark { grammar } => {
                user::grammar(grammar).map(|body| self.writer.rule(body)).map_err(invalid(ErrorCode::InvalidGrammar))
            }
            Constraint::Choice { texts } => {
                let literals = texts.iter().map(|text| literal(text)).collect();
                Ok(lark::either(literals).map(|body| self.writer.rule(body)).unwrap_or_default())
            }
            Constraint::ToolCall { .. } => Ok(String::new()),
        }
    }
}

/// A call of one tool; `None` if there is no way to call it.
fn call(
    markup: &mut CallWriter<'_>,
    name: &str,
    function: &Value<'_>,
    asked: &AskedTool,
) -> Result<Option<String>, Error> {
    let parameters = match function.get("parameters") {
        Some(parameters) if asked.is_custom => custom_input(markup, parameters, &asked.path)?,
        Some(parameters) => parameters_of(markup, parameters, &asked.path, asked.mode)?,
        None => None,
    };
    Ok(parameters.map(|parameters| markup.call(name, &parameters)))
}

/// The text of a custom tool.
fn custom_input(markup: &mut CallWriter<'_>, parameters: &Value<'_>, path: &str) -> Result<Option<String>, Error> {
    let input = parameters.get("properties").and_then(|properties| properties.as_object()?.iter().next());
    let Some((name, input)) = input else { return Ok(None) };
    let Some(grammar) = input.get("x-grammar") else {
        return Ok(Some(markup.text_parameter(name, &lark::expression(pattern::ANYTHING), true)));
    };
    let member = |key| grammar.get(key).and_then(Value::as_str).unwrap_or_default();
    let definition = member("definition");
    let invalid = |code| move |detail: String| Error::new(code, path, &[("detail", &detail)]);
    if member("syntax") == "regex" {
        let body = user::regex(definition).map_err(invalid(ErrorCode::InvalidRegex))?;
        return Ok(Some(markup.text_parameter(name, &body, true)));
    }
    let body = user::grammar(definition).map_err(invalid(ErrorCode::InvalidGrammar))?;
    let rule = markup.writer.rule(body);
    Ok(Some(markup.text_parameter(name, &rule, false)))
}

/// The parameters of a function. A loose schema that cannot be held to allows any.
fn parameters_of(
    markup: &mut CallWriter<'_>,
    parameters: &Value<'_>,
    path: &str,
    mode: Mode,
) -> Result<Option<String>, Error> {
    let (schemas, goal) = Schemas::new(parameters, path, mode);
    let written = match markup.parameters(&schemas, &goal) {
        Ok(_) if markup.writer.is_too_large() => Err(schemas.fault(goal[0], "", TOO_LARGE)),
        written => written,
    };
    match written {
        Ok(None) if mode != Mode::Loose => Err(schemas.fault(goal[0], "", "no arguments match it")),
        Ok(None) | Err(_) if mode == Mode::Loose => markup.parameters(&schemas, &[]),
        written => written,
    }
}
