//! Call arguments as the model sees them: one markup line per parameter.

use crate::conversation::ToolCall;
use crate::json::{Value, parse_into};
use crate::special::Special;

use super::tools::Words;
use super::{Scope, Writer};

/// Name of the one parameter that carries arguments which are not a JSON object.
const MALFORMED: &str = "arguments";

impl Writer<'_, '_> {
    /// Writes the parameters of a call and tells whether there were any.
    ///
    /// Arguments that are no JSON object, whatever is wrong with them, are shown whole as one string parameter.
    pub(super) fn arguments(&mut self, call: &ToolCall<'_>, words: &Words) -> bool {
        let arguments = call.arguments.as_ref();
        match parse_into(arguments.as_bytes(), &mut Vec::new()) {
            Ok(Value::Object(object)) => {
                for (name, value) in object.iter() {
                    self.parameter(call, name, value, words);
                }
                !object.is_empty()
            }
            _ => {
                self.parameter(call, MALFORMED, &Value::from(arguments), words);
                true
            }
        }
    }

    fn parameter(&mut self, call: &ToolCall<'_>, name: &str, value: &Value<'_>, words: &Words) {
        let scope = || Scope::parameter(call, name);
        self.text("<");
        self.special(Special::Dsml);
        self.text(words.parameter);
        self.text(" name=\"");
        self.within(scope, |writer| writer.text(name));
        match value {
            Value::String(text) => {
                self.text("\" string=\"true\">");
                self.within(scope, |writer| writer.text(text));
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
