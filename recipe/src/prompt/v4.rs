//! The V4 prompt.
//!
//! System texts come first, whatever their place in the conversation; turns of the user and results of tools follow, and
//! calls and results of one round are printed in the order of their ids.

use std::borrow::Cow;

use crate::conversation::{
    AssistantMessage, Content, Conversation, Effort, JOINER, Message, Part, ToolCall, ToolChoice,
};
use crate::special::Special;

use super::tools::Words;
use super::{Scope, Setting, Writer};

pub(super) const WORDS: Words = Words {
    block: "tool_calls",
    invoke: "invoke",
    parameter: "parameter",
    no_arguments: "",
    json_object: "\n\nYou are a helpful assistant designed to output JSON.\n## Response Format:\n\nReply with JSON object ONLY.",
};

const HIGH_EFFORT: &str = "Reasoning Effort: Absolute maximum with no shortcuts permitted.\nYou MUST be very thorough in \
    your thinking and comprehensively decompose the problem to resolve the root cause, rigorously stress-testing your \
    logic against all potential paths, edge cases, and adversarial scenarios.\nExplicitly write out your entire \
    deliberation process, documenting every intermediate step, considered alternative, and rejected hypothesis to \
    ensure absolutely no assumption is left unchecked.\n\n";
const MAX_EFFORT: &str = "Reasoning Effort: Beyond maximum — exhaustive, relentless, and uncompromising.\nYou MUST reason \
    with the utmost depth and rigor, leaving absolutely nothing to chance: exhaustively decompose the problem into its \
    most fundamental components, trace every causal chain to its root, and resolve the underlying cause rather than any \
    surface symptom.\nDo not stop reasoning until you have independently verified the solution from multiple angles and \
    are certain that no assumption remains unchecked and no error remains undiscovered.\n\n";

pub(super) fn write<'a>(conversation: &Conversation<'a>, writer: &mut Writer<'_, 'a>) {
    writer.special(Special::Bos);
    if conversation.thinking {
        let effort = match conversation.effort {
            Some(Effort::Low) => "",
            None | Some(Effort::High | Effort::ExtraHigh) => HIGH_EFFORT,
            Some(Effort::Max) => MAX_EFFORT,
        };
        writer.within(|| Scope::Setting(Setting::Effort), |writer| writer.text(effort));
    }
    system_texts(conversation, writer);
    writer.tools_block(conversation, &WORDS);
    writer.format_block(&conversation.response_format, &WORDS);
    turns(conversation, writer);
    let continues = matches!(conversation.messages.last(), Some(Message::Assistant(message)) if message.prefix);
    if !continues {
        writer.generation_prompt(conversation);
    }
    if conversation.tool_choice == ToolChoice::Required && conversation.uses_tools() {
        writer.within(|| Scope::Setting(Setting::ToolChoice), |writer| writer.open_block(&WORDS));
    }
}

fn system_texts<'a>(conversation: &Conversation<'a>, writer: &mut Writer<'_, 'a>) {
    let texts = conversation.messages.iter().filter_map(|message| match message {
        Message::System { content, .. } if !content.is_empty() => Some(content),
        _ => None,
    });
    for (index, content) in texts.enumerate() {
        if index > 0 {
            writer.text(JOINER);
        }
        writer.content(content);
    }
}

fn turns<'a>(conversation: &Conversation<'a>, writer: &mut Writer<'_, 'a>) {
    let messages = sort_results(merge_users(&conversation.messages));
    let mut previous: Option<&Message<'_>> = None;
    for (index, message) in messages.iter().enumerate() {
        match message.as_ref() {
            Message::System { .. } => {}
            Message::User { content } => {
                if matches!(previous, Some(Message::Tool { .. } | Message::User { .. })) {
                    writer.text(JOINER);
                } else {
                    writer.special(Special::User);
                }
                writer.content(content);
            }
            Message::Tool { call_id, content } => {
                if matches!(previous, Some(Message::Tool { .. })) {
                    writer.text(JOINER);
                } else {
                    writer.special(Special::User);
                }
                writer.result(call_id.as_deref(), content);
            }
            Message::LatestReminder { content } => {
                writer.special(Special::LatestReminder);
                writer.content(content);
            }
            Message::Assistant(turn) => {
                let last = index + 1 == messages.len();
                assistant(turn, conversation, last, writer);
            }
        }
        previous = Some(message);
    }
}

/// Leaves the system messages out and makes one user message of each run of them.
fn merge_users<'m, 'a>(messages: &'m [Message<'a>]) -> Vec<Cow<'m, Message<'a>>> {
    let mut merged: Vec<Cow<'m, Message<'a>>> = Vec::with_capacity(messages.len());
    for message in messages.iter().filter(|message| !matches!(message, Message::System { .. })) {
        match (merged.last_mut(), message) {
            (Some(last), Message::User { content: next }) if matches!(**last, Message::User { .. }) => {
                if let Message::User { content } = last.to_mut() {
                    append(content, next);
                }
            }
            _ => merged.push(Cow::Borrowed(message)),
        }
    }
    merged
}

fn append<'a>(content: &mut Content<'a>, next: &Content<'a>) {
    if !content.is_empty() && !next.is_empty() {
        content.0.push(Part::Text(Cow::Borrowed(JOINER)));
    }
    content.0.extend(next.0.iter().cloned());
}

/// Orders what follows a turn with n calls, if n messages do: results by the bytes of their ids, then everything else.
fn sort_results<'m, 'a>(mut messages: Vec<Cow<'m, Message<'a>>>) -> Vec<Cow<'m, Message<'a>>> {
    let rounds: Vec<(usize, usize)> = messages
        .iter()
        .enumerate()
        .filter_map(|(place, message)| match message.as_ref() {
            Message::Assistant(turn) if !turn.calls.is_empty() => Some((place + 1, turn.calls.len())),
            _ => None,
        })
        .collect();
    for (start, calls) in rounds {
        if let Some(round) = messages.get_mut(start..start + calls) {
            round.sort_by(|left, right| result_order(left).cmp(&result_order(right)));
        }
    }
    messages
}

fn result_order<'m>(message: &'m Message<'_>) -> (bool, Option<&'m str>) {
    match message {
        Message::Tool { call_id, .. } => (false, call_id.as_deref()),
        _ => (true, None),
    }
}

fn assistant<'a>(
    turn: &AssistantMessage<'a>,
    conversation: &Conversation<'a>,
    last: bool,
    writer: &mut Writer<'_, 'a>,
) {
    writer.open_turn(turn);
    thinking(turn, conversation, writer);
    answer(turn, writer);
    if !(turn.prefix && last) {
        writer.special(Special::Eos);
    }
}

/// What follows the reasoning of a turn.
pub(super) fn answer<'a>(turn: &AssistantMessage<'a>, writer: &mut Writer<'_, 'a>) {
    writer.model_content(&turn.content);
    let mut calls: Vec<&ToolCall<'a>> = turn.calls.iter().collect();
    calls.sort_by(|left, right| left.id.cmp(&right.id));
    writer.call_block(calls.into_iter(), &WORDS);
}

fn thinking<'a>(turn: &AssistantMessage<'a>, conversation: &Conversation<'a>, writer: &mut Writer<'_, 'a>) {
    let keep = turn.prefix || (conversation.thinking && conversation.uses_tools());
    if let Some(reasoning) = turn.reasoning.as_ref().filter(|_| keep) {
        writer.special(Special::ThinkingStart);
        writer.within(|| Scope::reasoning(turn), |writer| writer.model_text(reasoning));
    }
    if !(conversation.thinking && turn.leaves_thinking_open()) {
        writer.special(Special::ThinkingEnd);
    }
}
