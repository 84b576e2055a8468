//! The V4.1 prompt.
//!
//! System messages are turns of their own and stay where they were said; the first one also carries the effort, the tools
//! and the response format. Runs of user messages and tool results share one user turn.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::conversation::{
    AssistantMessage, Content, Conversation, Effort, JOINER, Message, ResponseFormat, Tool, ToolChoice,
};
use crate::special::Special;

use super::tools::Words;
use super::{Scope, Setting, Writer};

pub(super) const WORDS: Words = Words {
    block: " calls",
    invoke: " invoke",
    parameter: " parameter",
    no_arguments: "\n",
    json_object: "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n{\"type\": \"json_object\"}",
};

pub(super) fn write<'a>(conversation: &Conversation<'a>, writer: &mut Writer<'_, 'a>) {
    writer.special(Special::Bos);
    opening(conversation, writer);
    turns(conversation, writer);
    let continues = matches!(conversation.messages.last(), Some(Message::Assistant(message)) if message.prefix);
    if !continues {
        writer.generation_prompt(conversation);
    }
    if conversation.tool_choice == ToolChoice::Required && conversation.uses_tools() {
        writer.within(|| Scope::Setting(Setting::ToolChoice), |writer| writer.open_block(&WORDS));
    }
}

/// The first system turn: effort, the first system message if the conversation starts with one, tools, response format.
fn opening<'a>(conversation: &Conversation<'a>, writer: &mut Writer<'_, 'a>) {
    let first = match conversation.messages.first() {
        Some(Message::System { content, tools }) => Some((content, tools)),
        _ => None,
    };
    let has_format = matches!(conversation.response_format, ResponseFormat::JsonObject | ResponseFormat::JsonSchema(_));
    let thinks = conversation.thinking && !conversation.messages.is_empty();
    if !(conversation.uses_tools() || has_format || first.is_some() || thinks) {
        return;
    }
    writer.special(Special::System);
    if conversation.thinking {
        let effort = match conversation.effort {
            Some(Effort::Low) => 50,
            None | Some(Effort::High | Effort::ExtraHigh) => 75,
            Some(Effort::Max) => 100,
        };
        let effort = format!(
            "Reasoning Effort: {effort} (range 1-100, the higher the value, the more thorough the reasoning)\n\n"
        );
        writer.within(|| Scope::Setting(Setting::Effort), |writer| writer.text(&effort));
    }
    if let Some((content, _)) = first {
        writer.content(content);
    }
    writer.tools_block(conversation, &WORDS);
    writer.format_block(&conversation.response_format, &WORDS);
    if let Some((_, tools)) = first {
        added_tools(tools, writer);
    }
}

fn added_tools<'a>(tools: &[Tool<'a>], writer: &mut Writer<'_, 'a>) {
    if !tools.is_empty() {
        writer.text("\n\n### Updated Tool Schemas\n\n");
        writer.schemas(tools.iter());
    }
}

fn turns<'a>(conversation: &Conversation<'a>, writer: &mut Writer<'_, 'a>) {
    let mut call_places = HashMap::new();
    let mut rest = match conversation.messages.split_first() {
        Some((Message::System { .. }, rest)) => rest,
        _ => &conversation.messages[..],
    };
    while let Some(message) = rest.first() {
        let mut length = 1;
        match message {
            Message::System { content, tools } => {
                writer.special(Special::System);
                writer.content(content);
                added_tools(tools, writer);
            }
            Message::LatestReminder { content } => {
                // Of reminders in a row the model sees the first only.
                let reminds = |message: &&Message<'_>| matches!(message, Message::LatestReminder { .. });
                length = rest.iter().take_while(reminds).count();
                writer.special(Special::LatestReminder);
                writer.content(content);
            }
            Message::Assistant(turn) => {
                assistant(turn, conversation, writer);
                if !turn.calls.is_empty() {
                    call_places = places_of_calls(turn);
                }
            }
            Message::User { .. } | Message::Tool { .. } => {
                let shares = |message: &&Message<'_>| matches!(message, Message::User { .. } | Message::Tool { .. });
                length = rest.iter().take_while(shares).count();
                user_turn(&rest[..length], &call_places, writer);
            }
        }
        rest = &rest[length..];
    }
}

/// The first place of each id among the calls of a turn.
fn places_of_calls<'m>(turn: &'m AssistantMessage<'_>) -> HashMap<&'m str, usize> {
    let ids = turn.calls.iter().enumerate().rev();
    ids.filter_map(|(place, call)| Some((call.id.as_deref()?, place))).collect()
}

/// Writes a run of user messages and results. Results with an id fill the places of such results in the order of the
/// calls they answer; everything else keeps its place.
fn user_turn<'a>(run: &[Message<'a>], call_places: &HashMap<&str, usize>, writer: &mut Writer<'_, 'a>) {
    let mut results: Vec<(usize, &str, &Content<'a>)> = run
        .iter()
        .filter_map(|message| match message {
            Message::Tool { call_id: Some(id), content } => {
                Some((call_places.get(id.as_ref()).copied().unwrap_or(0), id.as_ref(), content))
            }
            _ => None,
        })
        .collect();
    results.sort_by_key(|(order, ..)| *order);
    let mut results = results.into_iter().map(|(_, id, content)| (id, content));
    writer.special(Special::User);
    for (index, message) in run.iter().enumerate() {
        if index > 0 {
            writer.text(JOINER);
        }
        match message {
            Message::Tool { call_id: Some(_), .. } => {
                results.by_ref().take(1).for_each(|(id, content)| writer.result(Some(id), content));
            }
            Message::Tool { call_id: None, content } => writer.result(None, content),
            Message::User { content } => writer.content(content),
            Message::System { .. } | Message::Assistant(_) | Message::LatestReminder { .. } => {}
        }
    }
}

fn assistant<'a>(turn: &AssistantMessage<'a>, conversation: &Conversation<'a>, writer: &mut Writer<'_, 'a>) {
    writer.open_turn(turn);
    let keep = conversation.thinking && (turn.prefix || conversation.uses_tools());
    if keep {
        writer.special(Special::ThinkingStart);
        let reasoning = turn.reasoning.as_ref().unwrap_or(&Cow::Borrowed(""));
        writer.within(|| Scope::reasoning(turn), |writer| writer.model_text(reasoning));
    }
    if !(keep && turn.leaves_thinking_open() && turn.calls.is_empty()) {
        writer.special(Special::ThinkingEnd);
    }
    answer(turn, writer);
    if !turn.prefix {
        writer.special(Special::Eos);
    }
}

/// What follows the reasoning of a turn.
pub(super) fn answer<'a>(turn: &AssistantMessage<'a>, writer: &mut Writer<'_, 'a>) {
    writer.model_content(&turn.content);
    writer.call_block(turn.calls.iter(), &WORDS);
}
