//! Messages request → conversation: what the model said.

use std::borrow::Cow;

use crate::conversation::{Arguments, AssistantMessage, JOINER, Part, ToolCall};
use crate::error::{Error, ErrorCode};
use crate::history::is_record;
use crate::protocol::request::ServerTools;
use crate::protocol::shared::content::TextOr;
use crate::protocol::shared::images;
use crate::wire::Path;

use super::blocks::Block;
use super::transcript::{OpenCalls, Place, Reader, misplaced};

impl<'v> Reader<'_, 'v> {
    /// Reads what the model said, and tells which calls are now to be answered.
    pub(super) fn assistant(
        &mut self,
        content: &TextOr<'v, Block<'v>>,
        place: Place<'_>,
    ) -> Result<(AssistantMessage<'v>, OpenCalls<'v>), Error> {
        let blocks = match content {
            TextOr::Text(text) => {
                let turn = AssistantMessage { content: (*text).into(), ..AssistantMessage::default() };
                return Ok((turn, OpenCalls::default()));
            }
            TextOr::Parts(blocks) => blocks,
        };
        let content = Path::Key(place.path, "content");
        let mut turn = AssistantMessage::default();
        let mut calls = OpenCalls::default();
        let mut redacted = false;
        for (index, block) in blocks.iter().enumerate() {
            let path = Path::Index(&content, index);
            let said = match block {
                Block::Thinking(block) => {
                    think(&mut turn.reasoning, block.thinking);
                    turn.records.extend(block.signature.filter(|signature| is_record(signature)));
                    continue;
                }
                Block::RedactedThinking(block) if block.record().is_some() => {
                    turn.records.extend(block.record());
                    continue;
                }
                Block::RedactedThinking(_) => {
                    redacted = true;
                    self.warnings.push(format!("{path}: the {} block was left out", block.kind()));
                    continue;
                }
                Block::ToolUse(call) => {
                    if !calls.open(call.id) {
                        let path = Path::Key(&path, "id").to_string();
                        return Err(Error::new(ErrorCode::DuplicateCallId, path, &[("found", &call.id)]));
                    }
                    let (id, name) = (Some(call.id.into()), call.name.into());
                    turn.calls.push(ToolCall { id, name, arguments: Arguments::Value(call.input) });
                    continue;
                }
                Block::ServerToolUse(_) | Block::WebSearchToolResult(_) => {
                    self.drop_server_block(block, &path)?;
                    continue;
                }
                Block::Text(block) => Part::Text(block.text.into()),
                Block::Document(block) => self.document(block),
                Block::Image(_) => match images::unsupported(self.version) {
                    Some(part) => part,
                    None => return Err(Error::new(ErrorCode::MisplacedImage, path.to_string(), &[])),
                },
                Block::ToolResult(_) => return Err(misplaced(&path, block, "user")),
                Block::ToolAddition(_) => return Err(misplaced(&path, block, "system")),
            };
            if let Some(id) = calls.first() {
                return Err(Error::new(ErrorCode::CallsNotAnswered, path.to_string(), &[("found", &id)]));
            }
            // Empty texts at the start leave no trace.
            if turn.content.is_empty() {
                turn.content.0.clear();
            } else {
                turn.content.0.push(Part::Text(JOINER.into()));
            }
            turn.content.0.push(said);
        }
        if redacted {
            // There was reasoning, even if none of it can be read.
            turn.reasoning.get_or_insert_default();
        }
        Ok((turn, calls))
    }

    fn drop_server_block(&mut self, block: &Block<'_>, path: &Path<'_>) -> Result<(), Error> {
        let kind = block.kind();
        if self.options.messages_web_search == ServerTools::Reject {
            return Err(Error::new(ErrorCode::Unsupported, path.to_string(), &[("found", &kind)]));
        }
        self.warnings.push(format!("{path}: the {kind} block was left out"));
        Ok(())
    }
}

fn think<'v>(reasoning: &mut Option<Cow<'v, str>>, more: &'v str) {
    match reasoning {
        Some(so_far) => {
            let so_far = so_far.to_mut();
            so_far.push_str(JOINER);
            so_far.push_str(more);
        }
        None => *reasoning = Some(more.into()),
    }
}
