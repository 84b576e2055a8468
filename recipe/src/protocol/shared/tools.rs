//! Declared tools: names, schemas, and what the tool choice leaves of them.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use crate::conversation::{Conversation, Message, Tool, ToolChoice};
use crate::error::{Error, ErrorCode};
use crate::json::{Object, Value};
use crate::wire::{Node, Path, wire_words};

use super::{schema, strict};

/// Longest name of a tool, in characters.
const NAME_LIMIT: usize = 128;

/// Checks the name of a tool.
pub(in crate::protocol) fn check_name(name: &str, path: &Path<'_>) -> Result<(), Error> {
    let fault = |code, values: &[(&str, &dyn fmt::Display)]| Err(Error::new(code, path.to_string(), values));
    if name.is_empty() {
        return fault(ErrorCode::EmptyString, &[]);
    }
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')) {
        return fault(ErrorCode::InvalidName, &[("found", &name)]);
    }
    if name.len() > NAME_LIMIT {
        return fault(ErrorCode::StringTooLong, &[("limit", &NAME_LIMIT), ("found", &name.len())]);
    }
    Ok(())
}

/// A function as a protocol declared it.
pub(in crate::protocol) struct Declaration<'p, 'v> {
    /// Name, with its namespace where it has one.
    pub name: Cow<'v, str>,
    pub description: Option<Cow<'v, str>>,
    /// The schema and where it stands; `None` where it is absent or null.
    pub parameters: Option<Node<'p, 'v>>,
    pub strict: Option<bool>,
    pub deferred: bool,
}

impl<'v> Declaration<'_, 'v> {
    /// Checks the schema; a strict tool's is rewritten.
    pub(in crate::protocol) fn into_tool(self) -> Result<Tool<'v>, Error> {
        let is_strict = self.strict == Some(true);
        let enforced = self.parameters.filter(|_| is_strict).map(|node| node.value.borrowed());
        let parameters = match self.parameters {
            None if is_strict => strict::no_parameters(),
            None => Value::Object(Object::default()),
            Some(node) if is_strict => strict::rewrite(node)?,
            Some(node) => {
                schema::check_parameters(node)?;
                node.value.borrowed()
            }
        };
        let path = self.parameters.map(|node| node.path.to_string()).unwrap_or_default();
        let Declaration { name, description, strict, deferred, .. } = self;
        Ok(Tool { name, description, parameters, enforced, strict, deferred, path })
    }
}

/// A tool choice in the protocols' common terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::protocol) enum Choice<'v> {
    Auto,
    None,
    Required,
    /// A call is required, but the prompt is that of `Auto`.
    Forced,
    Named(&'v str),
}

wire_words! {
    /// Whether one of some tools must be called.
    pub(crate) enum AllowedMode {
        /// The model decides.
        Auto = "auto",
        /// One must be.
        Required = "required",
    }
}

impl AllowedMode {
    /// The choice in common terms: the prompt shows nothing of it.
    pub(in crate::protocol) fn choice(self) -> Choice<'static> {
        match self {
            AllowedMode::Auto => Choice::Auto,
            AllowedMode::Required => Choice::Forced,
        }
    }
}

/// What the calls of an answer are held to. None of it is seen in the prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CallRules {
    /// Whether there must be a call.
    pub required: bool,
    /// Names of the tools that may be called; `None` for all.
    pub allowed: Option<Vec<String>>,
    /// Whether there may be one call at most.
    pub single: bool,
}

/// What is done about a call that is required of a model that thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredWhileThinking {
    /// The model thinks freely; what comes after is constrained.
    Constrain,
    /// The request is refused, as the model's service does.
    Reject,
}

/// Checks that no two tools share a name.
pub(in crate::protocol) fn check_unique<'t>(
    names: impl Iterator<Item = &'t str>,
    path: &Path<'_>,
) -> Result<(), Error> {
    let mut seen = HashSet::new();
    for (index, name) in names.enumerate() {
        if !seen.insert(name) {
            return Err(Error::new(
                ErrorCode::DuplicateToolName,
                Path::Index(path, index).to_string(),
                &[("found", &name)],
            ));
        }
    }
    Ok(())
}

/// Applies the tool choice, and gives what it demands beyond the prompt: a name leaves only that tool, and a call that is
/// required of a thinking model cannot be begun by the prompt. Without tools every choice is "auto".
pub(in crate::protocol) fn apply_choice(
    conversation: &mut Conversation<'_>,
    choice: Choice<'_>,
    while_thinking: RequiredWhileThinking,
    path: &Path<'_>,
) -> Result<CallRules, Error> {
    if conversation.tools.is_empty() {
        conversation.tool_choice = ToolChoice::Auto;
        return Ok(CallRules::default());
    }
    conversation.tool_choice = match choice {
        Choice::Auto | Choice::Forced => ToolChoice::Auto,
        Choice::None => ToolChoice::None,
        Choice::Required => ToolChoice::Required,
        Choice::Named(name) => {
            conversation.tools.retain(|tool| tool.name == name);
            if conversation.tools.is_empty() {
                return Err(Error::new(ErrorCode::UnknownTool, path.to_string(), &[("found", &name)]));
            }
            ToolChoice::Required
        }
    };
    let required = choice == Choice::Forced || conversation.tool_choice == ToolChoice::Required;
    if conversation.thinking && conversation.tool_choice == ToolChoice::Required {
        if while_thinking == RequiredWhileThinking::Reject {
            return Err(Error::new(ErrorCode::ToolChoiceWhileThinking, path.to_string(), &[]));
        }
        conversation.tool_choice = ToolChoice::Auto;
    }
    Ok(CallRules { required, ..CallRules::default() })
}

/// Limits calls to the tools that a choice names, each with its place in the request. All tools stay in the prompt, so that
/// its beginning stays cached. Without tools every choice is "auto".
pub(in crate::protocol) fn allow(
    rules: &mut CallRules,
    conversation: &Conversation<'_>,
    named: &[(String, &str)],
) -> Result<(), Error> {
    if conversation.tools.is_empty() {
        return Ok(());
    }
    let declared: HashSet<&str> = conversation.tools.iter().map(|tool| tool.name.as_ref()).collect();
    if let Some((path, name)) = named.iter().find(|(_, name)| !declared.contains(name)) {
        return Err(Error::new(ErrorCode::UnknownTool, path, &[("found", name)]));
    }
    rules.allowed = Some(named.iter().map(|(_, name)| (*name).to_owned()).collect());
    Ok(())
}

/// Applies the tool choice to tools that system messages add. A message that is left with nothing to say goes too.
pub(in crate::protocol) fn filter_added(conversation: &mut Conversation<'_>, choice: Choice<'_>) {
    let shown = |name: &str| match choice {
        Choice::Auto | Choice::Required | Choice::Forced => true,
        Choice::None => false,
        Choice::Named(wanted) => name == wanted,
    };
    conversation.messages.retain_mut(|message| match message {
        Message::System { content, tools } if !tools.is_empty() => {
            tools.retain(|tool| shown(&tool.name));
            !(tools.is_empty() && content.is_empty())
        }
        _ => true,
    });
}

/// Checks that strict tools stand alone: not beside non-strict ones, and not beside a response format.
pub(in crate::protocol) fn check_strict_mix(
    tools: &[Tool<'_>],
    has_format: bool,
    path: &Path<'_>,
) -> Result<(), Error> {
    let is_strict = |tool: &Tool<'_>| tool.strict == Some(true);
    let any_strict = tools.iter().any(is_strict);
    if any_strict && !tools.iter().all(is_strict) {
        return Err(Error::new(ErrorCode::StrictMixed, path.to_string(), &[]));
    }
    if any_strict && has_format {
        return Err(Error::new(ErrorCode::StrictWithFormat, path.to_string(), &[]));
    }
    Ok(())
}
