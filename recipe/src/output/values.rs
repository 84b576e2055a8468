//! Values of parameters → fragments of the arguments' JSON text.
//!
//! Owns the open value. A value that says it is a string streams as it comes; any other is held to its end, at most
//! [`HOLD_LIMIT`] bytes, and shown as it stands if it is JSON, else as a string. So the fragments always join to JSON. An
//! object that is a call's whole body and the value of a repeated parameter are held without a limit: neither could be
//! shown before its end, and nothing is dropped.

use super::calls::Invoke;
use super::json_mode::Scanner;
use super::machine::{Machine, Origin, State};
use super::matcher::Node;
use super::region::HOLD_LIMIT;
use super::run::Run;
use super::sink::Step;
use super::tag::Tag;
use crate::event::Event;
use crate::json;

/// The value of a parameter being read.
#[derive(Debug)]
pub(super) struct Value {
    kind: Kind,
    /// Text not yet sent on, or held.
    text: Vec<u8>,
    /// Whether the value so far ends with a newline: there a complete parameter tag ends a value that was not closed.
    pub(super) after_newline: bool,
    /// Where the value stands in the spelling of a control token.
    spelled: Node,
}

#[derive(Debug)]
enum Kind {
    /// A string, sent on as it comes.
    Text,
    /// Perhaps JSON, held. The text begins with `[`, so that the depth of the whole arguments is what is checked.
    Raw,
    /// A parameter that is left out of the arguments.
    Dropped { name: String },
    /// A parameter of a call that is not shown.
    Muted,
}

/// A call's body that is one JSON object, perhaps; held.
#[derive(Debug, Default)]
pub(super) struct Object {
    text: Run,
    spelled: Node,
    scanner: Scanner,
    members: usize,
}

impl Object {
    /// What was read of it: prose, if it turns out to be none.
    pub(super) fn text(&self) -> &Run {
        &self.text
    }

    pub(super) fn is_in_string(&self) -> bool {
        self.scanner.is_in_string()
    }
}

impl Machine {
    /// The start tag of a parameter, in a call.
    pub(super) fn begin_parameter(&mut self, tag: &Tag) {
        self.start_call();
        self.after_tag();
        let name = self.name_in(tag);
        let Some(invoke) = &mut self.invoke else { return };
        let is_text = tag.attribute("string").is_some_and(|(value, quoted)| quoted && value == "true");
        let kind = match name {
            _ if invoke.is_muted() => Kind::Muted,
            Some(name) if !invoke.is_whole && !invoke.seen.contains(&name) => {
                let label = label(invoke, name, is_text);
                self.push_arguments(label);
                if is_text { Kind::Text } else { Kind::Raw }
            }
            name => Kind::Dropped { name: name.unwrap_or_default() },
        };
        let text = if matches!(kind, Kind::Raw) { vec![b'['] } else { Vec::new() };
        self.state = State::Value(Value { kind, text, after_newline: false, spelled: Node::ROOT });
    }

    /// Takes text of the open value.
    pub(super) fn value_text(&mut self, bytes: &[u8]) {
        let State::Value(value) = &mut self.state else { return };
        value.after_newline = bytes.ends_with(b"\n");
        let kept = self.guard.as_ref().map(|guard| guard.part(bytes, &mut value.spelled));
        let bytes = kept.as_deref().unwrap_or(bytes);
        match value.kind {
            Kind::Muted => {}
            Kind::Text | Kind::Dropped { .. } => value.text.extend_from_slice(bytes),
            Kind::Raw => {
                // The limit falls on the same byte however the text was cut.
                let room = (HOLD_LIMIT + 1).saturating_sub(value.text.len());
                value.text.extend_from_slice(bytes);
                if bytes.len() > room {
                    value.kind = Kind::Text;
                    value.text.remove(0);
                    self.push_arguments("\"".to_owned());
                }
            }
        }
    }

    /// Sends on what the open value has gathered.
    pub(super) fn settle_value(&mut self) {
        let (State::Value(value) | State::Tag(_, Origin::Value(value))) = &mut self.state else { return };
        if matches!(value.kind, Kind::Text) && !value.text.is_empty() {
            let mut fragment = std::mem::take(&mut self.spare);
            fragment.clear();
            json::escape_into(&String::from_utf8_lossy(&value.text), &mut fragment);
            value.text.clear();
            self.push_arguments(fragment);
        }
    }

    /// The value ends.
    pub(super) fn end_value(&mut self, value: Value) {
        match value.kind {
            Kind::Text => {
                let mut fragment = String::with_capacity(value.text.len() + 2);
                json::escape_into(&String::from_utf8_lossy(&value.text), &mut fragment);
                fragment.push('"');
                self.push_arguments(fragment);
            }
            Kind::Raw => self.push_arguments(json_or_string(value.text)),
            Kind::Dropped { name } => {
                if let Some(invoke) = &self.invoke {
                    let value = String::from_utf8_lossy(&value.text).into_owned();
                    let index = invoke.index;
                    self.push_step(Step::Event(Event::CallParameterDropped { index, name, value }));
                }
            }
            Kind::Muted => {}
        }
        self.after_tag();
    }

    /// The body of a call begins with a brace.
    pub(super) fn begin_object(&mut self, bytes: &[u8], at: u64) {
        self.start_call();
        self.after_tag();
        self.state = State::Object(Object::default());
        self.object_text(bytes, at);
    }

    /// Takes text of the open object.
    pub(super) fn object_text(&mut self, bytes: &[u8], at: u64) {
        let State::Object(object) = &mut self.state else { return };
        let kept = self.guard.as_ref().map(|guard| guard.part(bytes, &mut object.spelled));
        let bytes = kept.as_deref().unwrap_or(bytes);
        object.text.push(bytes, at);
        let mut is_complete = false;
        for &byte in bytes {
            object.members += usize::from(byte == b',' && object.scanner.is_outermost());
            is_complete = object.scanner.step(byte);
        }
        if is_complete && let State::Object(object) = std::mem::replace(&mut self.state, State::Prose) {
            self.end_object(&object);
        }
    }

    /// The object is read as far as it goes; if it is none, its text is prose.
    pub(super) fn end_object(&mut self, object: &Object) {
        if let Ok(json::Value::Object(members)) = json::parse(object.text.bytes()) {
            let is_unique = members.is_empty() || members.len() == object.members + 1;
            let mut fragment = String::new();
            if is_unique {
                fragment.push_str(&String::from_utf8_lossy(object.text.bytes()));
            } else {
                json::write_compact(&json::Value::Object(members), &mut fragment);
            }
            self.push_arguments(fragment);
            if let Some(invoke) = &mut self.invoke {
                invoke.is_whole = true;
            }
            self.after_tag();
        } else {
            self.prose.is_fresh = false;
            self.replay(&object.text);
        }
    }
}

/// What stands before the value of a parameter.
fn label(invoke: &mut Invoke, name: String, is_text: bool) -> String {
    let mut label = String::from(if invoke.seen.is_empty() { "{" } else { ", " });
    json::write_string(&name, &mut label);
    label.push_str(if is_text { ": \"" } else { ": " });
    invoke.seen.insert(name);
    label
}

/// A value held as `[` and its text: the text if it is one JSON value, else a string of it.
fn json_or_string(mut held: Vec<u8>) -> String {
    held.push(b']');
    let is_json = matches!(json::parse(&held), Ok(json::Value::Array(items)) if items.len() == 1);
    let text = String::from_utf8_lossy(&held[1..held.len() - 1]);
    if is_json {
        return text.into_owned();
    }
    let mut out = String::with_capacity(text.len() + 2);
    json::write_string(&text, &mut out);
    out
}
