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

#[cfg(test)]
mod tests {
    use crate::conversation::{Arguments, AssistantMessage, ToolCall};
    use crate::json::parse;
    use crate::model::Version;
    use crate::prompt::render_answer;

    #[test]
    fn json_is_shown_as_its_text_is() {
        let long = "\\\"a\\\" \\u0001\\\\n é 世\\n".repeat(20);
        let numbers =
            "[1.50,-0,0,-7,1E5,1e-7,0.00005,1e22,18446744073709551615,18446744073709551616,-9223372036854775809]";
        let nested = format!(r#"{{"a":"{long}","b":{{"c":["{long}",null,true,{{}}]}},"":"","n":{numbers}}}"#);
        for value in [&*nested, "{}", "[]", "null", "\"text\"", "1.50", numbers, r#"{"a":"short","b":""}"#] {
            let value = parse(value.as_bytes()).unwrap();
            let shown = |arguments: Arguments<'_>, version: Version| {
                let call = ToolCall { id: None, name: "f".into(), arguments };
                let turn = AssistantMessage { calls: vec![call], ..AssistantMessage::default() };
                render_answer(&turn, version, &version.spellings()).into_owned()
            };
            for version in Version::ALL {
                let json = Arguments::Value(&value);
                assert_eq!(shown(json.text().into(), version), shown(json.clone(), version));
            }
        }
    }
}
