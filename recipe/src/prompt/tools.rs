//! The parts of a prompt that both versions share but for a few words: tool schemas, call blocks, response formats.

use crate::conversation::{Conversation, ResponseFormat, Tool, ToolCall};
use crate::json::Value;
use crate::special::Special;

use super::{Scope, Setting, Writer};

/// The words of the tool markup, and what else the shared blocks differ in.
pub(crate) struct Words {
    pub(crate) block: &'static str,
    pub(crate) invoke: &'static str,
    pub(crate) parameter: &'static str,
    /// What a call without arguments has between its tags.
    pub(crate) no_arguments: &'static str,
    /// What asks for a JSON object.
    pub(super) json_object: &'static str,
}

const HEADER: &str = "\n\n## Tools\n\nYou have access to a set of tools to help answer the user's question. You can \
    invoke tools by writing a \"<{dsml}{block}>\" block like the following:\n\n<{dsml}{block}>\n<{dsml}{invoke} \
    name=\"$TOOL_NAME\">\n<{dsml}{parameter} name=\"$PARAMETER_NAME\" \
    string=\"true|false\">$PARAMETER_VALUE</{dsml}{parameter}>\n...\n</{dsml}{invoke}>\n<{dsml}{invoke} \
    name=\"$TOOL_NAME2\">\n...\n</{dsml}{invoke}>\n</{dsml}{block}>\n\nString parameters should be specified as is and \
    set `string=\"true\"`. For all other types (numbers, booleans, arrays, objects), pass the value in JSON format and \
    set `string=\"false\"`.\n\nIf thinking_mode is enabled (triggered by {think}), you MUST output your complete \
    reasoning inside {think}...{/think} BEFORE any tool calls or final response.\n\nOtherwise, output directly after \
    {/think} with tool calls or final response.\n\n### Available Tool Schemas\n\n";
const FOOTER: &str =
    "\n\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.\n";
const SCHEMA_HEADER: &str = "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n";

impl<'a> Writer<'_, 'a> {
    /// Lists the tools that are not deferred, if the conversation uses any.
    pub(super) fn tools_block(&mut self, conversation: &Conversation<'a>, words: &Words) {
        if !conversation.uses_tools() {
            return;
        }
        let header = HEADER
            .replace("{block}", words.block)
            .replace("{invoke}", words.invoke)
            .replace("{parameter}", words.parameter);
        let write = |writer: &mut Self| {
            writer.template(&header);
            writer.schemas(conversation.tools.iter().filter(|tool| !tool.deferred));
            writer.text(FOOTER);
        };
        self.within(|| Scope::Setting(Setting::Tools), write);
    }

    /// One JSON line per tool.
    pub(super) fn schemas<'t>(&mut self, tools: impl Iterator<Item = &'t Tool<'a>>)
    where
        'a: 't,
    {
        for (index, tool) in tools.enumerate() {
            let write = |writer: &mut Self| {
                writer.text(if index > 0 { "\n{\"name\": " } else { "{\"name\": " });
                writer.json(&Value::from(tool.name.as_ref()));
                writer.text(", \"description\": ");
                writer.json(&Value::from(tool.description.as_deref().unwrap_or_default()));
                writer.text(", \"parameters\": ");
                writer.json(&tool.parameters);
                writer.text("}");
            };
            self.within(|| Scope::tool(tool), write);
        }
    }

    /// Says what form the answer must have, if it must have one.
    pub(super) fn format_block(&mut self, format: &ResponseFormat<'_>, words: &Words) {
        let write = |writer: &mut Self| match format {
            ResponseFormat::JsonObject => writer.text(words.json_object),
            ResponseFormat::JsonSchema(schema) => {
                writer.text(SCHEMA_HEADER);
                writer.json(schema);
            }
            ResponseFormat::Text | ResponseFormat::Regex(_) | ResponseFormat::Lark(_) | ResponseFormat::Choice(_) => {}
        };
        self.within(|| Scope::Setting(Setting::ResponseFormat), write);
    }

    /// The calls of a turn, in the order given.
    pub(super) fn call_block<'t>(&mut self, calls: impl ExactSizeIterator<Item = &'t ToolCall<'a>>, words: &Words)
    where
        'a: 't,
    {
        if calls.len() == 0 {
            return;
        }
        self.open_block(words);
        for call in calls {
            self.text("<");
            self.special(Special::Dsml);
            self.text(words.invoke);
            self.text(" name=\"");
            self.within(|| Scope::call_name(call), |writer| writer.text(&call.name));
            self.text("\">\n");
            if !self.arguments(call, words) {
                self.text(words.no_arguments);
            }
            self.close(words.invoke);
            self.text("\n");
        }
        self.close(words.block);
    }

    /// Opens a block of calls.
    pub(super) fn open_block(&mut self, words: &Words) {
        self.text("\n\n<");
        self.special(Special::Dsml);
        self.text(words.block);
        self.text(">\n");
    }

    /// Writes an end tag.
    pub(super) fn close(&mut self, word: &str) {
        self.text("</");
        self.special(Special::Dsml);
        self.text(word);
        self.text(">");
    }
}
