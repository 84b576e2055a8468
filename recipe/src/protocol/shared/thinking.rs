//! Thinking mode, effort, and what becomes of earlier reasoning.

use crate::conversation::{Conversation, Effort, Message};
use crate::error::{Error, ErrorCode};
use crate::wire::{wire_object, wire_words};

wire_words! {
    /// How hard the model is asked to think, in the words of the protocols.
    pub(crate) enum EffortWord {
        /// No thinking.
        None = "none",
        /// Low.
        Minimal = "minimal",
        /// Low.
        Low = "low",
        /// High.
        Medium = "medium",
        /// High.
        High = "high",
        /// Extra high.
        ExtraHigh = "xhigh",
        /// Max.
        Ultra = "ultra",
        /// Max.
        Max = "max",
    }
}

wire_words! {
    /// Whether the model thinks.
    pub(crate) enum ThinkingType {
        /// It does.
        Enabled = "enabled",
        /// It does not.
        Disabled = "disabled",
        /// It does.
        Adaptive = "adaptive",
    }
}

wire_object! {
    /// The `thinking` setting.
    pub(crate) struct Thinking<'v> {
        /// Whether the model thinks.
        kind as "type": ThinkingType,
        /// Most tokens of reasoning.
        budget_tokens: Option<u64>,
    }
}

/// Whether the model thinks, and how hard.
pub(in crate::protocol) fn resolve(
    thinking: Option<&Thinking<'_>>,
    effort: Option<EffortWord>,
    default_thinking: bool,
) -> (bool, Option<Effort>) {
    let on = match (thinking.map(|thinking| thinking.kind), effort) {
        (Some(ThinkingType::Disabled), _) | (None, Some(EffortWord::None)) => false,
        (Some(ThinkingType::Enabled | ThinkingType::Adaptive), _) | (None, Some(_)) => true,
        (None, None) => default_thinking,
    };
    let effort = match effort {
        Some(EffortWord::Minimal | EffortWord::Low) => Effort::Low,
        None | Some(EffortWord::None | EffortWord::Medium | EffortWord::High) => Effort::High,
        Some(EffortWord::ExtraHigh) => Effort::ExtraHigh,
        Some(EffortWord::Ultra | EffortWord::Max) => Effort::Max,
    };
    (on, on.then_some(effort))
}

/// The budget of reasoning: the one beside the mode, or else the extra field that other servers have for it.
pub(in crate::protocol) fn budget(thinking: Option<&Thinking<'_>>, extra: Option<u64>) -> Option<u64> {
    thinking.and_then(|thinking| thinking.budget_tokens).or(extra)
}

/// What is done about an assistant message without reasoning in a thinking conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissingReasoning {
    /// It counts as empty.
    #[default]
    Fill,
    /// It is refused where the model needs it: after the last user message, if tools are in play.
    Reject,
}

/// Brings earlier reasoning into the form that the conversation's mode wants. `field` names the reasoning in the protocol's
/// words.
pub(in crate::protocol) fn settle_history(
    conversation: &mut Conversation<'_>,
    missing: MissingReasoning,
    declares_tools: bool,
    field: &str,
) -> Result<(), Error> {
    if missing == MissingReasoning::Reject && conversation.thinking {
        let current = conversation.messages.iter().rev();
        let mut current = current.take_while(|message| !matches!(message, Message::User { .. }));
        let lacks = |message: &Message<'_>| match message {
            Message::Assistant(turn) => turn.reasoning.is_none() && (declares_tools || !turn.calls.is_empty()),
            _ => false,
        };
        if current.any(lacks) {
            return Err(Error::new(ErrorCode::MissingReasoning, field, &[]));
        }
    }
    for message in &mut conversation.messages {
        if let Message::Assistant(turn) = message {
            turn.reasoning = conversation.thinking.then(|| turn.reasoning.take().unwrap_or_default());
        }
    }
    Ok(())
}
