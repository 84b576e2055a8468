//! Call arguments as the model sees them: one markup line per parameter.

use crate::conversation::{Arguments, ToolCall};
use crate::json::{Value, parse_into};
use crate::special::Special;

use super::tools::Words;
use super::{Scope, Writer};

/// Name of the one parameter that carries arguments which are not a JSON object.
const MALFORMED: &str = "arguments";

impl<'a> Writer<'_, 'a> {
    /// Writes the parameters of a call and tells whether there were any.
    ///
    /// Arguments that are no JSON object, whatever is wrong with them, are shown whole as one string parameter.
    pub(super) fn arguments(&mut self, call: &ToolCall<'a>, words: &Words) -> bool {
        match &call.arguments {
            // To a trace a parameter is one field, whatever lies in it.
            Arguments::Value(Value::Object(object)) if self.trace.is_none() => {
                for (name, value) in object.iter() {
                    self.parameter(call, name, value, Self::said, words);
                }
                !object.is_empty()
            }
            arguments => self.arguments_as_text(call, &arguments.text(), words),
        }
    }

    fn arguments_as_text(&mut self, call: &ToolCall<'a>, arguments: &str, words: &Words) -> bool {
        let mut room = std::mem::take(&mut self.room);
        let has_any = match parse_into(arguments.as_bytes(), &mut room) {
            Ok(Value::Object(object)) => {
                for (name, value) in object.iter() {
                    self.parameter(call, name, value, Self::text, words);
                }
                !object.is_empty()
            }
            _ => {
                self.parameter(call, MALFORMED, &Value::from(arguments), Self::text, words);
                true
            }
        };
        self.room = room;
        has_any
    }

    fn parameter<'t>(
        &mut self,
        call: &ToolCall<'_>,
        name: &str,
        value: &'t Value<'_>,
        append: impl Fn(&mut Self, &'t str),
        words: &Words,
    ) {
        let scope = || Scope::parameter(call, name);
        self.text("<");
        self.special(Special::Dsml);
        self.text(words.parameter);
        self.text(" name=\"");
        self.within(scope, |writer| writer.text(name));
        match value {
            Value::String(text) => {
                self.text("\" string=\"true\">");
                self.within(scope, |writer| append(writer, text));
            }
            _ => {
                self.text("\" string=\"false\">");
                self.within(scope, |writer| writer.json(value));
            }
        }
        self.close(words.parameter);
        self.text("\n");
    }
}
