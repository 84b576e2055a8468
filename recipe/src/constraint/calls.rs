//! Tool calls: blocks of markup that call the tools that may be called.
//!
//! The markup is spelled as the version's prompts spell it. Parameters come in the order in which they are declared; a string
//! stands raw in its tag, any other value as JSON.

use crate::error::Error;
use crate::model::Version;
use crate::prompt::{Markup, markup};

use super::json::{JsonWriter, NESTING_LIMIT, Written};
use super::lark::{Writer, either, expression, literal, token};
use super::object::Members;
use super::schema::{Id, Schemas};
use super::strings::raw_strings;
use super::types::Types;

/// A parameter whose name the schema does not say. The format carries any name without a quotation mark; these also keep to
/// one line.
const OTHER_NAME: &str = "[^\"\\x00-\\x1F]{1,128}";

/// Writes the markup of calls.
pub(super) struct CallWriter<'w> {
    pub(super) writer: &'w mut Writer,
    version: Version,
    words: &'static Markup,
    dsml: String,
    /// The values that were written for the schemas of this tool, or before for any.
    pub(super) written: Written,
}

/// What a parameter is held to.
enum Text {
    /// A terminal of raw text.
    Terminal(String),
    /// A rule, which matches up to the end tag.
    Rule(String),
}

impl<'w> CallWriter<'w> {
    /// `dsml` is the id of the mark.
    pub(super) fn new(writer: &'w mut Writer, version: Version, dsml: u32) -> Self {
        Self { writer, version, words: markup(version), dsml: token(dsml), written: Written::default() }
    }

    /// A whole block, without the mark of its opener and what stands before it.
    pub(super) fn opened(&mut self, calls: &str) -> String {
        format!("{} {calls}", literal(&format!("{}>\n", self.words.block)))
    }

    /// The opener of a block up to its mark.
    pub(super) fn opener(&self) -> String {
        format!("{} {}", literal("\n\n<"), self.dsml)
    }

    /// What follows the opener of a block: the calls and its end.
    pub(super) fn calls(&mut self, calls: Vec<String>, single: bool) -> Option<String> {
        let call = either(calls)?;
        let call = self.writer.rule(call);
        let times = if single { "" } else { "+" };
        Some(format!("{call}{times} {}", self.end(self.words.block, "")))
    }

    /// One call of the tool `name`.
    pub(super) fn call(&mut self, name: &str, parameters: &str) -> String {
        let tag = format!("{} name=\"{name}\">\n", self.words.invoke);
        let end = self.end(self.words.invoke, "\n");
        self.writer.rule(format!("\"<\" {} {} {parameters} {end}", self.dsml, literal(&tag)))
    }

    /// The one parameter of a tool that takes text: `terminal` is the body of a terminal, or `rule` matches it.
    pub(super) fn text_parameter(&mut self, name: &str, text: &str, is_terminal: bool) -> String {
        let text = if is_terminal { Text::Terminal(text.to_owned()) } else { Text::Rule(text.to_owned()) };
        self.string_parameter(&literal(&self.tag(name)), text)
    }

    /// The parameters that a tool's schema allows; `None` if none do.
    pub(super) fn parameters(&mut self, schemas: &Schemas<'_>, goal: &[Id]) -> Result<Option<String>, Error> {
        let mut alternatives = Vec::new();
        for branch in schemas.branches(goal)? {
            if !branch.types.holds(Types::OBJECT) {
                continue;
            }
            if branch.values.is_some() {
                schemas.refuse(goal[0], "", "listed arguments are not supported")?;
            }
            let members = Members::of(schemas, &branch.parts)?;
            alternatives.extend(self.sequence(schemas, &members)?);
        }
        Ok(either(alternatives).map(|body| self.writer.rule(body)))
    }

    /// Parameters in their order, or what stands for none.
    fn sequence(&mut self, schemas: &Schemas<'_>, members: &Members<'_>) -> Result<Option<String>, Error> {
        let mut first = literal(self.words.no_arguments);
        let mut rest = String::new();
        if let Some(goal) = &members.others {
            // Tags are told apart as wholes: the one that is longest counts.
            let taken = members.named.iter().map(|(name, _)| literal(&self.tag(name))).collect();
            let any = format!("{} {}", literal(&self.tag("")), expression(OTHER_NAME));
            let tag = match either(taken) {
                None => any,
                Some(taken) => format!("{any} & ~({taken})"),
            };
            let tag = self.writer.terminal(tag);
            if let Some(parameter) = self.parameter(schemas, &tag, goal)? {
                rest = self.writer.rule(format!("{parameter}*"));
                first = self.writer.rule(format!("{parameter} {rest} | {first}"));
            }
        }
        for (name, goal) in members.named.iter().rev() {
            let is_required = members.required.contains(name);
            if name.contains('"') {
                schemas.refuse(goal.first().copied().unwrap_or(0), "", "the name of a parameter cannot contain \"")?;
                continue;
            }
            let parameter = match members.goal(name) {
                Some(goal) => self.parameter(schemas, &literal(&self.tag(name)), goal)?,
                None => None,
            };
            (first, rest) = match parameter {
                Some(parameter) if is_required => {
                    let all = self.writer.rule(format!("{parameter} {rest}"));
                    (all.clone(), all)
                }
                Some(parameter) => (
                    self.writer.rule(format!("{parameter} {rest} | {first}")),
                    self.writer.rule(format!("{parameter}? {rest}")),
                ),
                None if is_required => return Ok(None),
                None => (first, rest),
            };
        }
        Ok(Some(first))
    }

    /// A parameter of any value that `goal` allows; `tag` is its start tag up to the end of the name.
    fn parameter(&mut self, schemas: &Schemas<'_>, tag: &str, goal: &[Id]) -> Result<Option<String>, Error> {
        match self.own_parameter(schemas, tag, goal) {
            Err(_) if schemas.is_loose() => self.own_parameter(schemas, tag, &[]),
            written => written,
        }
    }

    fn own_parameter(&mut self, schemas: &Schemas<'_>, tag: &str, goal: &[Id]) -> Result<Option<String>, Error> {
        let mut texts = Vec::new();
        for branch in schemas.branches(goal)? {
            if branch.types.holds(Types::STRING) {
                texts.extend(raw_strings(schemas, &branch)?);
            }
        }
        let mut alternatives = Vec::new();
        if let Some(texts) = either(texts) {
            alternatives.push(self.string_parameter(tag, Text::Terminal(texts)));
        }
        let style = self.version.float_style();
        let mut json = JsonWriter::new(self.writer, schemas, style, &mut self.written);
        let json = json.value(goal, Types::NOT_STRING, NESTING_LIMIT)?;
        if let Some(json) = json {
            let open = literal("\" string=\"false\">");
            let end = self.end(self.words.parameter, "\n");
            alternatives.push(self.writer.rule(format!("\"<\" {} {tag} {open} {json} {end}", self.dsml)));
        }
        Ok(either(alternatives).map(|body| self.writer.rule(body)))
    }

    fn string_parameter(&mut self, tag: &str, text: Text) -> String {
        let open = literal("\" string=\"true\">");
        // The text and the `</` after it are one terminal: wherever the mark follows `</`, the text ends.
        let (text, close) = match text {
            Text::Terminal(body) => (self.writer.terminal(format!("({body}) \"</\"")), String::new()),
            Text::Rule(rule) => (rule, "\"</\"".to_owned()),
        };
        let end = literal(&format!("{}>\n", self.words.parameter));
        self.writer.rule(format!("\"<\" {} {tag} {open} {text} {close} {} {end}", self.dsml, self.dsml))
    }

    /// The start tag of a parameter up to the end of its name.
    fn tag(&self, name: &str) -> String {
        format!("{} name=\"{name}", self.words.parameter)
    }

    fn end(&self, word: &str, after: &str) -> String {
        format!("\"</\" {} {}", self.dsml, literal(&format!("{word}>{after}")))
    }
}
