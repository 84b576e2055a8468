//! Call arguments as the model sees them: one markup line per parameter.

use crate::json::{Value, parse, write_python};

use super::Writer;
use super::tools::Words;
use crate::special::Special;

/// Name of the one parameter that carries arguments which are not a JSON object.
const MALFORMED: &str = "arguments";

impl Writer<'_, '_> {
    /// Writes the parameters of a call and tells whether there were any.
    ///
    /// Arguments that are no JSON object, whatever is wrong with them, are shown whole as one string parameter.
    pub(super) fn arguments(&mut self, arguments: &str, words: &Words) -> bool {
        match parse(arguments.as_bytes()) {
            Ok(Value::Object(object)) => {
                for (name, value) in object.iter() {
                    self.parameter(name, value, words);
                }
                !object.is_empty()
            }
            _ => {
                self.parameter(MALFORMED, &Value::from(arguments), words);
                true
            }
        }
    }

    fn parameter(&mut self, name: &str, value: &Value<'_>, words: &Words) {
        self.text("<");
        self.special(Special::Dsml);
        self.text(words.parameter);
        self.text(" name=\"");
        self.text(name);
        match value {
            Value::String(text) => {
                self.text("\" string=\"true\">");
                self.text(text);
            }
            _ => {
                self.text("\" string=\"false\">");
                write_python(value, self.version.float_style(), &mut self.prompt.text);
            }
        }
        self.close(words.parameter);
        self.text("\n");
    }
}
