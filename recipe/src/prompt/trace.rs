//! Where each stretch of a prompt came from, noted while the prompt is written.
//!
//! Text that a request brings is borrowed from its body all the way into the prompt, so the address that a stretch was
//! copied from tells its field. Addresses are numbers here: compared, and never followed. Text that the codec composed has
//! an address that no field has; for it the writer notes on whose behalf it was written.

use crate::conversation::{AssistantMessage, Content, ImageData, ImageSource, Part, Tool, ToolCall};
use crate::json::Value;

/// Where a text lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    /// First byte.
    pub(crate) start: usize,
    /// Byte after the last.
    pub(crate) end: usize,
}

impl Address {
    pub(crate) fn of(text: &str) -> Self {
        let start = text.as_ptr().addr();
        Self { start, end: start + text.len() }
    }
}

/// A setting that puts text of the format into the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setting {
    /// How hard the model thinks.
    Effort,
    /// Whether it thinks.
    Thinking,
    /// Form of the answer.
    ResponseFormat,
    /// That there are tools.
    Tools,
    /// That one must be called.
    ToolChoice,
}

/// On whose behalf text is written; its field where the text itself has none.
#[derive(Debug, Clone)]
pub(crate) enum Scope {
    /// Nobody's: the format itself.
    Format,
    /// The string at this address.
    Text(Address),
    /// A setting.
    Setting(Setting),
    /// A tool: its name, and the strings of its declaration.
    Tool(String, Vec<Address>),
    /// Content: its strings, and the id of the call that it answers.
    Content(Vec<Address>, Option<Address>),
    /// Reasoning of a turn: the strings of the turn.
    Reasoning(Vec<Address>),
    /// The name of a call: id and name.
    CallName([Address; 2]),
    /// A parameter of a call: id and name of the call, name of the parameter.
    Parameter([Address; 2], String),
}

impl Scope {
    pub(super) fn image(source: &ImageSource<'_>) -> Self {
        Scope::Text(image(source))
    }

    pub(super) fn tool(tool: &Tool<'_>) -> Self {
        let mut addresses = vec![Address::of(&tool.name)];
        addresses.extend(tool.description.as_deref().map(Address::of));
        strings(&tool.parameters, &mut addresses);
        Scope::Tool(tool.name.clone().into_owned(), addresses)
    }

    pub(super) fn content(content: &Content<'_>, call_id: Option<&str>) -> Self {
        Scope::Content(parts(content).collect(), call_id.map(Address::of))
    }

    pub(super) fn reasoning(turn: &AssistantMessage<'_>) -> Self {
        let calls = turn.calls.iter().flat_map(call);
        Scope::Reasoning(parts(&turn.content).chain(calls).collect())
    }

    pub(super) fn call_name(called: &ToolCall<'_>) -> Self {
        Scope::CallName(call(called))
    }

    pub(super) fn parameter(called: &ToolCall<'_>, name: &str) -> Self {
        Scope::Parameter(call(called), name.to_owned())
    }
}

fn call(call: &ToolCall<'_>) -> [Address; 2] {
    [Address::of(call.id.as_deref().unwrap_or_default()), Address::of(&call.name)]
}

fn image(source: &ImageSource<'_>) -> Address {
    let (ImageData::Url(data) | ImageData::Base64 { data, .. }) = &source.data;
    Address::of(data)
}

fn parts<'c>(content: &'c Content<'_>) -> impl Iterator<Item = Address> + 'c {
    content.0.iter().map(|part| match part {
        Part::Text(text) => Address::of(text),
        Part::Image(source) | Part::UnplacedImage(source) => image(source),
    })
}

/// The keys and strings of a value.
fn strings(value: &Value<'_>, out: &mut Vec<Address>) {
    match value {
        Value::String(text) => out.push(Address::of(text)),
        Value::Array(items) => items.iter().for_each(|item| strings(item, out)),
        Value::Object(object) => {
            for (key, member) in object.iter() {
                out.push(Address::of(key));
                strings(member, out);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A stretch of a prompt; it begins where the one before ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    /// Byte of the prompt after it.
    pub(crate) end: usize,
    /// What it was copied from; empty for a control token.
    pub(crate) source: Address,
    /// Place of its scope in the trace's list.
    pub(crate) scope: usize,
}

/// Stretches of a whole prompt, without gaps.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) stretches: Vec<Stretch>,
    pub(crate) scopes: Vec<Scope>,
    current: usize,
}

impl Trace {
    pub(super) fn new() -> Self {
        Self { stretches: Vec::new(), scopes: vec![Scope::Format], current: 0 }
    }

    /// Notes that everything up to `end` which was not noted yet was copied from `source`.
    pub(super) fn note(&mut self, end: usize, source: &str) {
        if self.stretches.last().map_or(0, |last| last.end) < end {
            self.stretches.push(Stretch { end, source: Address::of(source), scope: self.current });
        }
    }

    /// Begins a scope, and gives the one around it.
    pub(super) fn enter(&mut self, scope: Scope) -> usize {
        self.scopes.push(scope);
        std::mem::replace(&mut self.current, self.scopes.len() - 1)
    }

    /// Goes back to the scope around.
    pub(super) fn leave(&mut self, outer: usize) {
        self.current = outer;
    }
}
