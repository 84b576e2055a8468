//! Messages: declared tools and the tool choice.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::conversation::Tool;
use crate::error::{Error, ErrorCode};
use crate::model::Version;
use crate::protocol::request::ServerTools;
use crate::protocol::shared::tools::{Choice, Declaration, check_name};
use crate::wire::{Node, Path};

use super::request::{ClientTool, MessagesRequest, MessagesTool, MessagesToolChoice};

/// How the types of the search tools begin, whatever their dates.
const WEB_SEARCH: &str = "web_search";

/// The tools of a request that are not server tools.
pub(super) struct DeclaredTools<'v> {
    /// The tools in order; empty if the choice hides them.
    pub(super) tools: Vec<Tool<'v>>,
    places: HashMap<&'v str, usize>,
}

impl<'v> DeclaredTools<'v> {
    /// Reads the tools. The form of names is checked whatever the choice; all else only if the tools are to be shown.
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
            let tool = match tool {
                MessagesTool::Client(tool) => tool,
                MessagesTool::Server(tool) if tool.kind.starts_with(WEB_SEARCH) && web_search == ServerTools::Drop => {
                    warnings.push(format!("{item}: the server tool {} was left out", tool.kind));
                    continue;
                }
                MessagesTool::Server(tool) => {
                    let path = Path::Key(&item, "type").to_string();
                    return Err(Error::new(ErrorCode::Unsupported, path, &[("found", &tool.kind)]));
                }
            };
            check_name(tool.name, &Path::Key(&item, "name"))?;
            if declared.places.insert(tool.name, kept.len()).is_some() && choice != Choice::None {
                return Err(Error::new(ErrorCode::DuplicateToolName, item.to_string(), &[("found", &tool.name)]));
            }
            kept.push((index, tool));
        }
        if let Choice::Named(name) = choice
            && kept.is_empty()
            && request.tools.as_ref().is_some_and(|tools| !tools.is_empty())
        {
            return Err(Error::new(ErrorCode::UnknownTool, "tool_choice.name", &[("found", &name)]));
        }
        let defers = |tool: &ClientTool<'_>| version.has_system_turns() && tool.defer_loading == Some(true);
        if !kept.is_empty() && kept.iter().all(|(_, tool)| defers(tool)) {
            return Err(Error::new(ErrorCode::AllToolsDeferred, "tools", &[]));
        }
        if choice != Choice::None {
            let convert = |(index, tool)| convert(tool, &Path::Index(&path, index), defers(tool));
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

fn convert<'v>(tool: &ClientTool<'v>, item: &Path<'_>, deferred: bool) -> Result<Tool<'v>, Error> {
    let path = Path::Key(item, "input_schema");
    let schema = tool.input_schema.ok_or_else(|| Error::new(ErrorCode::MissingField, path.to_string(), &[]))?;
    let declaration = Declaration {
        name: tool.name.into(),
        description: tool.description.map(Cow::Borrowed),
        parameters: Some(Node { value: schema, path: &path }),
        strict: None,
        deferred,
    };
    // The prompt shows the schema as it was written: strictness only constrains the answer.
    Ok(Tool { strict: tool.strict, ..declaration.into_tool()? })
}

/// Whether there may be one call at most.
pub(super) fn single_call(request: &MessagesRequest<'_>) -> bool {
    let disabled = match &request.tool_choice {
        Some(MessagesToolChoice::Auto(choice) | MessagesToolChoice::Any(choice)) => choice.disable_parallel_tool_use,
        Some(MessagesToolChoice::Tool(choice)) => choice.disable_parallel_tool_use,
        None | Some(MessagesToolChoice::None(_)) => None,
    };
    disabled == Some(true)
}

/// The tool choice. Choosing a search that was left out is no choice.
pub(super) fn choice<'v>(request: &MessagesRequest<'v>, web_search: ServerTools) -> Choice<'v> {
    match &request.tool_choice {
        None | Some(MessagesToolChoice::Auto(_)) => Choice::Auto,
        Some(MessagesToolChoice::Any(_)) => Choice::Forced,
        Some(MessagesToolChoice::None(_)) => Choice::None,
        Some(MessagesToolChoice::Tool(tool)) if tool.name == WEB_SEARCH && web_search == ServerTools::Drop => {
            Choice::Auto
        }
        Some(MessagesToolChoice::Tool(tool)) => Choice::Named(tool.name),
    }
}
