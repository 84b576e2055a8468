//! Responses input → messages: items are gathered into turns of the model, and every call gets its result.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::conversation::{AssistantMessage, Content, JOINER, Message, Part, Tool, ToolCall};
use crate::error::{Error, ErrorCode};
use crate::history::is_record;
use crate::model::Version;
use crate::wire::Path;

use super::found_tools::found_tools;
use super::items::{InputItem, ItemRole, MessageItem};
use super::parts;
use super::toolbox::{TOOL_SEARCH, Toolbox};

/// Reads items one after the other.
pub(super) struct Transcript<'t, 'v> {
    version: Version,
    toolbox: &'t mut Toolbox<'v>,
    messages: Vec<Message<'v>>,
    /// The turn of the model that further items may join.
    turn: Option<Turn<'v>>,
    /// All calls so far, and whether each is answered.
    calls: HashMap<&'v str, bool>,
    /// Number of calls of the turn that are not answered yet.
    waiting: usize,
    /// Results for calls of the turn.
    results: Vec<(&'v str, Content<'v>)>,
    /// Tools found by searches of the turn, one list for each.
    found: Vec<Vec<Tool<'v>>>,
}

/// A turn of the model that is being gathered.
#[derive(Default)]
struct Turn<'v> {
    message: AssistantMessage<'v>,
    /// Whether it holds more than reasoning.
    answers: bool,
}

impl<'t, 'v> Transcript<'t, 'v> {
    /// Nothing said yet but `messages`.
    pub(super) fn new(version: Version, toolbox: &'t mut Toolbox<'v>, messages: Vec<Message<'v>>) -> Self {
        Self {
            version,
            toolbox,
            messages,
            turn: None,
            calls: HashMap::new(),
            waiting: 0,
            results: Vec::new(),
            found: Vec::new(),
        }
    }

    /// Ends the conversation and gives all that was said.
    pub(super) fn finish(mut self) -> Result<Vec<Message<'v>>, Error> {
        self.end_round(&Path::Key(&Path::Root, "input"))?;
        self.end_turn();
        Ok(self.messages)
    }

    /// Reads an item.
    pub(super) fn item(&mut self, item: &InputItem<'v>, path: &Path<'_>) -> Result<(), Error> {
        match item {
            InputItem::Message(message) => {
                self.end_round(path)?;
                self.message(message, path)
            }
            InputItem::Reasoning(reasoning) => {
                let text = reasoning.text();
                // An item without text stands between calls and their results: it only carries a record, or did so once.
                if !text.is_empty() {
                    self.end_round(path)?;
                    self.reasoning(text);
                }
                if let Some(record) = reasoning.encrypted_content.filter(|content| is_record(content)) {
                    self.turn.get_or_insert_default().message.records.push(record);
                }
                Ok(())
            }
            InputItem::FunctionCall(call) => {
                let name = self.toolbox.called(call.namespace, call.name);
                self.call(call.call_id, name, call.arguments.into(), path)
            }
            InputItem::CustomToolCall(call) => {
                self.call(call.call_id, call.name.into(), parts::custom_arguments(call.input).into(), path)
            }
            InputItem::Output(output) => {
                let content = || parts::output(&output.output, path, self.version);
                let Some(id) = output.call_id else {
                    self.end_round(path)?;
                    let content = content()?;
                    self.end_turn();
                    self.messages.push(Message::Tool { call_id: None, content });
                    return Ok(());
                };
                let content = content()?;
                self.answer(id, path)?;
                self.result(id, content);
                Ok(())
            }
            // A version that is shown no tools later does not see that any were searched for.
            InputItem::ToolSearchCall(_) if !self.version.has_system_turns() => {
                self.left_out("tool_search_call", path);
                Ok(())
            }
            InputItem::ToolSearchOutput(_) if !self.version.has_system_turns() => {
                self.left_out("tool_search_output", path);
                Ok(())
            }
            InputItem::ToolSearchCall(call) => {
                let arguments = parts::search_arguments(call.arguments);
                self.call(call.call_id, TOOL_SEARCH.into(), arguments.into(), path)
            }
            InputItem::ToolSearchOutput(output) => {
                self.answer(output.call_id, path)?;
                let path = Path::Key(path, "tools");
                let content = found_tools(&output.tools, &path)?;
                let found = self.toolbox.find(&output.tools, &path)?;
                self.found.push(found);
                self.result(output.call_id, content.into());
                Ok(())
            }
            InputItem::WebSearchCall => {
                self.left_out("web_search_call", path);
                self.end_round(path)
            }
            InputItem::Reference(_) => {
                self.left_out("item_reference", path);
                Ok(())
            }
            InputItem::Unknown(kind) => {
                self.left_out(kind, path);
                Ok(())
            }
        }
    }

    fn left_out(&mut self, kind: &str, path: &Path<'_>) {
        self.toolbox.warnings.push(format!("{path}: the item {kind} was left out"));
    }

    fn message(&mut self, item: &MessageItem<'v>, path: &Path<'_>) -> Result<(), Error> {
        let content = parts::message(item, path, self.version)?;
        let is_user = match item.role {
            ItemRole::Assistant => {
                self.say(content);
                return Ok(());
            }
            ItemRole::User => true,
            ItemRole::Developer => !self.version.has_system_turns(),
            ItemRole::System => false,
        };
        self.end_turn();
        self.messages.push(if is_user {
            Message::User { content }
        } else {
            Message::System { content, tools: Vec::new() }
        });
        Ok(())
    }

    /// Adds text to the turn.
    fn say(&mut self, content: Content<'v>) {
        let turn = self.turn.get_or_insert_default();
        turn.answers = true;
        if content.is_empty() {
            return;
        }
        let said = &mut turn.message.content;
        if !said.0.is_empty() {
            said.0.push(Part::Text(JOINER.into()));
        }
        said.0.extend(content.0);
    }

    /// Adds reasoning to a turn that has nothing else yet, or begins one with it.
    fn reasoning(&mut self, text: Cow<'v, str>) {
        let joins = |turn: &Turn<'_>| turn.message.content.is_empty() && turn.message.calls.is_empty();
        if !self.turn.as_ref().is_some_and(joins) {
            self.end_turn();
        }
        let reasoning = &mut self.turn.get_or_insert_default().message.reasoning;
        match reasoning {
            Some(so_far) => {
                let so_far = so_far.to_mut();
                so_far.push('\n');
                so_far.push_str(&text);
            }
            None => *reasoning = Some(text),
        }
    }

    fn call(&mut self, id: &'v str, name: Cow<'v, str>, arguments: Cow<'v, str>, path: &Path<'_>) -> Result<(), Error> {
        check_id(id, path)?;
        if self.calls.insert(id, false).is_some() {
            return Err(call_fault(ErrorCode::DuplicateCallId, id, path));
        }
        self.waiting += 1;
        let turn = self.turn.get_or_insert_default();
        turn.answers = true;
        turn.message.calls.push(ToolCall { id: Some(id.into()), name, arguments: arguments.into() });
        Ok(())
    }

    /// Notes that a call is answered.
    fn answer(&mut self, id: &'v str, path: &Path<'_>) -> Result<(), Error> {
        check_id(id, path)?;
        match self.calls.get_mut(id) {
            None => Err(call_fault(ErrorCode::UnexpectedToolResult, id, path)),
            Some(true) => Err(call_fault(ErrorCode::DuplicateToolResult, id, path)),
            Some(answered) => {
                *answered = true;
                Ok(())
            }
        }
    }

    /// Adds a result. The last one of a round ends the turn: calls and results are put in the order of their ids.
    fn result(&mut self, id: &'v str, content: Content<'v>) {
        self.results.push((id, content));
        self.waiting -= 1;
        if self.waiting > 0 {
            return;
        }
        if let Some(turn) = &mut self.turn {
            turn.message.calls.sort_by(|left, right| left.id.cmp(&right.id));
        }
        self.end_turn();
        self.results.sort_by_key(|(id, _)| *id);
        let results = self.results.drain(..);
        self.messages.extend(results.map(|(id, content)| Message::Tool { call_id: Some(id.into()), content }));
        let found = self.found.drain(..).filter(|tools| !tools.is_empty());
        self.messages.extend(found.map(|tools| Message::System { content: Content::EMPTY, tools }));
    }

    /// Checks that no call waits for its result.
    fn end_round(&self, path: &Path<'_>) -> Result<(), Error> {
        if self.waiting == 0 {
            return Ok(());
        }
        let ids = self.turn.iter().flat_map(|turn| &turn.message.calls).filter_map(|call| call.id.as_deref());
        let mut missing = ids.filter(|id| self.calls.get(id) == Some(&false));
        let missing = missing.next().unwrap_or_default();
        Err(Error::new(ErrorCode::CallsNotAnswered, path.to_string(), &[("found", &missing)]))
    }

    /// Closes the turn. Reasoning that came to nothing was interrupted, and leaves no empty turn behind.
    fn end_turn(&mut self) {
        if let Some(turn) = self.turn.take()
            && turn.answers
        {
            self.messages.push(Message::Assistant(turn.message));
        }
    }
}

fn check_id(id: &str, path: &Path<'_>) -> Result<(), Error> {
    if id.is_empty() { Err(call_fault(ErrorCode::EmptyString, id, path)) } else { Ok(()) }
}

fn call_fault(code: ErrorCode, id: &str, path: &Path<'_>) -> Error {
    Error::new(code, Path::Key(path, "call_id").to_string(), &[("found", &id)])
}
