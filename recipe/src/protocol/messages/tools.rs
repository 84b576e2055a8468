//! Messages: declared tools and the tool choice.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::conversation::Tool;
use crate::error::{Error, ErrorCode};
use crate::model::Version;
use crate::protocol::request::ServerTools;
use crate::protocol::shared::tools::{Choice, Declaration, check_name};
use crate::wire::{Node, Path};

use super::request::{ChoiceType, MessagesRequest, MessagesTool};

/// How the types of the search tools begin, whatever their dates.
const WEB_SEARCH: &str = "web_search";

/// The tools of a request that are not server tools.
pub(super) struct DeclaredTools<'v> {
    /// The tools in order; empty if the choice hides them.
    pub(super) tools: Vec<Tool<'v>>,
    places: HashMap<&'v str, usize>,
}

impl<'v> DeclaredTools<'v> {
    /// Reads the tools. Names are checked whatever the choice; schemas only if the tools are to be shown.
    pub(super) fn read(
        request: &MessagesRequest<'v>,
        version: Version,
        web_search: ServerTools,
        choice: Choice<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Self, Error> {
        let path = Path::Key(&Path::Root, "tools");
        let mut declared = Self { tools: Vec::new(), places: HashMap::new() };
        let mut kept = Vec::new();
        for (index, tool) in request.tools.iter().flatten().enumerate() {
            let item = Path::Index(&path, index);
            if let Some(kind) = tool.kind {
                if !kind.starts_with(WEB_SEARCH) || web_search == ServerTools::Reject {
                    let path = Path::Key(&item, "type").to_string();
                    return Err(Error::new(ErrorCode::Unsupported, path, &[("found", &kind)]));
                }
                warnings.push(format!("{item}: the server tool {kind} was left out"));
                continue;
            }
            let name = name(tool, &item)?;
            if declared.places.insert(name, kept.len()).is_some() {
                return Err(Error::new(ErrorCode::DuplicateToolName, item.to_string(), &[("found", &name)]));
            }
            kept.push((index, name, tool));
        }
        let defers = |tool: &MessagesTool<'_>| version.has_system_turns() && tool.defer_loading == Some(true);
        if !kept.is_empty() && kept.iter().all(|(.., tool)| defers(tool)) {
            return Err(Error::new(ErrorCode::AllToolsDeferred, "tools", &[]));
        }
        if choice != Choice::None {
            let convert = |(index, name, tool)| convert(tool, name, &Path::Index(&path, index), defers(tool));
            declared.tools = kept.into_iter().map(convert).collect::<Result<_, _>>()?;
        }
        Ok(declared)
    }

    /// The tool that the string at `path` names; `None` if the choice hides it.
    pub(super) fn find(&self, name: &str, path: &Path<'_>) -> Result<Option<&Tool<'v>>, Error> {
        match self.places.get(name) {
            Some(place) => Ok(self.tools.get(*place)),
            None => Err(Error::new(ErrorCode::UnknownTool, path.to_string(), &[("found", &name)])),
        }
    }
}

fn name<'v>(tool: &MessagesTool<'v>, item: &Path<'_>) -> Result<&'v str, Error> {
    let path = Path::Key(item, "name");
    let value = tool.name.ok_or_else(|| Error::new(ErrorCode::MissingField, path.to_string(), &[]))?;
    let node = Node { value, path: &path };
    check_name(node)?;
    node.string()
}

fn convert<'v>(tool: &MessagesTool<'v>, name: &'v str, item: &Path<'_>, deferred: bool) -> Result<Tool<'v>, Error> {
    let path = Path::Key(item, "input_schema");
    let schema = tool.input_schema.ok_or_else(|| Error::new(ErrorCode::MissingField, path.to_string(), &[]))?;
    Declaration {
        name: name.into(),
        description: tool.description.map(Cow::Borrowed),
        parameters: Some(Node { value: schema, path: &path }),
        strict: None,
        deferred,
    }
    .into_tool()
}

/// The tool choice. Choosing a search that was left out is no choice.
pub(super) fn choice<'v>(request: &MessagesRequest<'v>, web_search: ServerTools) -> Result<Choice<'v>, Error> {
    let Some(choice) = &request.tool_choice else { return Ok(Choice::Auto) };
    match (choice.kind, choice.name) {
        (ChoiceType::Auto | ChoiceType::Any, _) => Ok(Choice::Auto),
        (ChoiceType::None, _) => Ok(Choice::None),
        (ChoiceType::Tool, None) => Err(Error::new(ErrorCode::MissingField, "tool_choice.name", &[])),
        (ChoiceType::Tool, Some(WEB_SEARCH)) if web_search == ServerTools::Drop => Ok(Choice::Auto),
        (ChoiceType::Tool, Some(name)) => Ok(Choice::Named(name)),
    }
}
