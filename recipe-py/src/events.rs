//! Typed events, for users of the library who want more than bytes.

use pyo3::prelude::*;
use recipe::event;

/// One step of an answer.
#[pyclass(frozen, module = "deepseek_recipe")]
pub(crate) enum Event {
    /// More reasoning.
    Reasoning { text: String },
    /// More answer text.
    Text { text: String },
    /// A tool call begins.
    CallStart { index: usize, name: String },
    /// More of the arguments' JSON text.
    CallArguments { index: usize, fragment: String },
    /// A repeated parameter was left out.
    CallParameterDropped { index: usize, name: String, value: String },
    /// A tool call ends; `complete` tells whether its arguments are whole.
    CallEnd { index: usize, complete: bool },
    /// The answer ends: `stop`, `tool_calls`, `length` or `content_filter`.
    Finish { reason: String, stop_sequence: Option<String> },
}

/// An event of the codec for Python.
pub(crate) fn convert(event: &event::Event) -> Event {
    match event {
        event::Event::Reasoning(delta) => Event::Reasoning { text: delta.text.clone() },
        event::Event::Text(delta) => Event::Text { text: delta.text.clone() },
        event::Event::CallStart { index, name } => Event::CallStart { index: *index, name: name.clone() },
        event::Event::CallArguments { index, fragment } => {
            Event::CallArguments { index: *index, fragment: fragment.clone() }
        }
        event::Event::CallParameterDropped { index, name, value } => {
            Event::CallParameterDropped { index: *index, name: name.clone(), value: value.clone() }
        }
        event::Event::CallEnd { index, complete } => Event::CallEnd { index: *index, complete: *complete },
        event::Event::Finish(finish) => {
            Event::Finish { reason: reason(finish.reason).to_owned(), stop_sequence: finish.stop_sequence.clone() }
        }
    }
}

fn reason(reason: event::FinishReason) -> &'static str {
    match reason {
        event::FinishReason::Stop => "stop",
        event::FinishReason::ToolCalls => "tool_calls",
        event::FinishReason::Length => "length",
        event::FinishReason::ContentFilter => "content_filter",
    }
}
