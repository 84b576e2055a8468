//! Messages request → conversation: the messages, and that every call has its result where it must be.

use std::collections::HashMap;

use crate::conversation::{Content, Message, Part, Tool};
use crate::error::{Error, ErrorCode};
use crate::model::Version;
use crate::protocol::request::ReadOptions;
use crate::protocol::shared::content::TextOr;
use crate::wire::Path;

use super::blocks::{AddedTool, Block, ResultBlock, ToolResultBlock};
use super::parts::{reminder, tool_error};
use super::request::{MessagesMessage, Role};
use super::tools::DeclaredTools;

/// Reads messages one after the other.
pub(super) struct Reader<'r, 'v> {
    pub(super) version: Version,
    pub(super) options: &'r ReadOptions,
    pub(super) tools: &'r DeclaredTools<'v>,
    pub(super) warnings: &'r mut Vec<String>,
}

/// A message's place.
#[derive(Clone, Copy)]
pub(super) struct Place<'p> {
    pub(super) path: &'p Path<'p>,
    pub(super) index: usize,
}

/// The calls of an assistant message that the next message must answer, and whether each is answered.
#[derive(Default)]
pub(super) struct OpenCalls<'v> {
    order: Vec<&'v str>,
    answered: HashMap<&'v str, bool>,
    waiting: usize,
}

impl<'v> OpenCalls<'v> {
    /// Adds a call and tells whether its id is a new one.
    pub(super) fn open(&mut self, id: &'v str) -> bool {
        self.order.push(id);
        self.waiting += 1;
        self.answered.insert(id, false).is_none()
    }

    /// The first call, if there are any.
    pub(super) fn first(&self) -> Option<&'v str> {
        self.order.first().copied()
    }

    /// Notes the result of a call.
    fn answer(&mut self, id: &'v str, path: &Path<'_>) -> Result<(), Error> {
        let fault = |code| Err(Error::new(code, Path::Key(path, "tool_use_id").to_string(), &[("found", &id)]));
        match self.answered.get_mut(id) {
            None => fault(ErrorCode::UnexpectedToolResult),
            Some(true) => fault(ErrorCode::DuplicateToolResult),
            Some(answered) => {
                *answered = true;
                self.waiting -= 1;
                Ok(())
            }
        }
    }

    /// The error for a call without a result, if there is one.
    fn check_answered(&self, path: &Path<'_>, code: ErrorCode) -> Result<(), Error> {
        if self.waiting == 0 {
            return Ok(());
        }
        match self.order.iter().find(|id| self.answered.get(*id) == Some(&false)) {
            Some(id) => Err(Error::new(code, path.to_string(), &[("found", id)])),
            None => Ok(()),
        }
    }
}

pub(super) fn misplaced(path: &Path<'_>, block: &Block<'_>, expected: &str) -> Error {
    Error::new(ErrorCode::MisplacedBlock, path.to_string(), &[("found", &block.kind()), ("expected", &expected)])
}

/// The records of a message of the model that holds nothing else.
pub(super) fn lone_records<'v>(message: &MessagesMessage<'v>) -> Option<Vec<&'v str>> {
    let TextOr::Parts(blocks) = &message.content else { return None };
    let record = |block: &Block<'v>| match block {
        Block::RedactedThinking(block) => block.record(),
        _ => None,
    };
    blocks.iter().map(record).collect::<Option<_>>().filter(|_| message.role == Role::Assistant)
}

impl<'v> Reader<'_, 'v> {
    /// Appends what `messages` say to `out`.
    pub(super) fn read(&mut self, messages: &[MessagesMessage<'v>], out: &mut Vec<Message<'v>>) -> Result<(), Error> {
        let path = Path::Key(&Path::Root, "messages");
        if messages.is_empty() {
            return Err(Error::new(ErrorCode::EmptyArray, "messages", &[]));
        }
        let mut open = OpenCalls::default();
        for (index, message) in messages.iter().enumerate() {
            let item = Path::Index(&path, index);
            let is_empty = matches!(&message.content, TextOr::Parts(blocks) if blocks.is_empty());
            if is_empty && message.role != Role::System {
                return Err(Error::new(ErrorCode::EmptyArray, Path::Key(&item, "content").to_string(), &[]));
            }
            if let Some(records) = lone_records(message) {
                // Whatever took the rest of an answer away, nothing was said here.
                if let Some(Message::Assistant(turn)) = out.last_mut() {
                    turn.records.extend(records);
                }
                continue;
            }
            let place = Place { path: &item, index };
            if message.role != Role::User {
                open.check_answered(&item, ErrorCode::CallsNotAnswered)?;
            }
            match message.role {
                Role::User => self.user(&message.content, place, std::mem::take(&mut open), out)?,
                Role::System => self.system(&message.content, place, out)?,
                Role::Assistant => {
                    let (turn, calls) = self.assistant(&message.content, place)?;
                    open = calls;
                    out.push(Message::Assistant(turn));
                }
            }
        }
        open.check_answered(&Path::Index(&path, messages.len() - 1), ErrorCode::MissingToolResult)
    }

    fn user(
        &mut self,
        content: &TextOr<'v, Block<'v>>,
        place: Place<'_>,
        mut open: OpenCalls<'v>,
        out: &mut Vec<Message<'v>>,
    ) -> Result<(), Error> {
        let blocks = match content {
            TextOr::Text(text) => {
                open.check_answered(place.path, ErrorCode::CallsNotAnswered)?;
                out.push(Message::User { content: (*text).into() });
                return Ok(());
            }
            TextOr::Parts(blocks) => blocks,
        };
        let content = Path::Key(place.path, "content");
        let mut found = Vec::new();
        for (index, block) in blocks.iter().enumerate() {
            let path = Path::Index(&content, index);
            if let Block::ToolResult(result) = block {
                open.answer(result.tool_use_id, &path)?;
                out.push(self.result(result, place, index, &mut found)?);
                continue;
            }
            open.check_answered(&path, ErrorCode::CallsNotAnswered)?;
            let part = match block {
                Block::Text(block) => Part::Text(block.text.into()),
                Block::Image(block) => {
                    self.image(block, &path, format!("messages.{}.content[{index}]", place.index))?
                }
                Block::Document(block) => self.document(block),
                Block::ToolAddition(_) => return Err(misplaced(&path, block, "system")),
                _ => return Err(misplaced(&path, block, "assistant")),
            };
            out.push(Message::User { content: Content(vec![part]) });
        }
        open.check_answered(place.path, ErrorCode::MissingToolResult)?;
        if !found.is_empty() {
            out.push(Message::System { content: Content::EMPTY, tools: found });
        }
        Ok(())
    }

    fn result(
        &self,
        result: &ToolResultBlock<'v>,
        place: Place<'_>,
        index: usize,
        found: &mut Vec<Tool<'v>>,
    ) -> Result<Message<'v>, Error> {
        let content = match &result.content {
            None => Content::EMPTY,
            Some(TextOr::Text(text)) => (*text).into(),
            Some(TextOr::Parts(blocks)) => {
                let content = Path::Key(place.path, "content");
                let block = Path::Index(&content, index);
                let path = Path::Key(&block, "content");
                let mut parts = Vec::with_capacity(blocks.len());
                for (inner, block) in blocks.iter().enumerate() {
                    let path = Path::Index(&path, inner);
                    let listed = || format!("messages.{}.content.{index}.tool_result", place.index);
                    parts.push(match block {
                        ResultBlock::Text(block) => Part::Text(block.text.into()),
                        ResultBlock::Image(block) => self.image(block, &path, listed())?,
                        ResultBlock::Document(block) => self.document(block),
                        ResultBlock::ToolReference(block) => {
                            found.extend(self.referenced(block.tool_name, &Path::Key(&path, "tool_name"))?);
                            Part::Text(block.tool_name.into())
                        }
                    });
                }
                Content::joined(parts)
            }
        };
        let failed = self.options.show_tool_errors && result.is_error == Some(true);
        let content = if failed { tool_error(content) } else { content };
        Ok(Message::Tool { call_id: Some(result.tool_use_id.into()), content })
    }

    /// The tool that something refers to, on versions that show tools later.
    fn referenced(&self, name: &'v str, path: &Path<'_>) -> Result<Option<Tool<'v>>, Error> {
        let tool = self.tools.find(name, path)?;
        Ok(tool.filter(|_| self.version.has_system_turns()).cloned())
    }

    fn system(
        &mut self,
        content: &TextOr<'v, Block<'v>>,
        place: Place<'_>,
        out: &mut Vec<Message<'v>>,
    ) -> Result<(), Error> {
        let mut tools = Vec::new();
        let mut added = false;
        let content: Content<'v> = match content {
            TextOr::Text(text) => (*text).into(),
            TextOr::Parts(blocks) => {
                let content = Path::Key(place.path, "content");
                let mut parts = Vec::with_capacity(blocks.len());
                for (index, block) in blocks.iter().enumerate() {
                    let path = Path::Index(&content, index);
                    match block {
                        Block::Text(block) => parts.push(Part::Text(block.text.into())),
                        Block::Image(block) => {
                            parts.push(self.image(block, &path, format!("messages.{}", place.index))?);
                        }
                        Block::Document(block) => parts.push(self.document(block)),
                        Block::ToolAddition(block) => {
                            let AddedTool::ToolReference(tool) = &block.tool;
                            tools.extend(self.referenced(tool.name, &Path::Key(&path, "tool"))?);
                            added = true;
                        }
                        Block::ToolResult(_) => return Err(misplaced(&path, block, "user")),
                        _ => return Err(misplaced(&path, block, "assistant")),
                    }
                }
                Content::joined(parts)
            }
        };
        if self.version.has_system_turns() {
            // Of a message that only adds tools, nothing is left where tools are hidden.
            if !(added && tools.is_empty() && content.is_empty()) {
                out.push(Message::System { content, tools });
            }
        } else if !content.is_empty() {
            out.push(Message::User { content: reminder(content) });
        }
        Ok(())
    }
}
