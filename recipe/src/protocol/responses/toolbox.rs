//! Responses: declared tools, and tools that were found while the model worked.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::conversation::Tool;
use crate::error::{Error, ErrorCode};
use crate::json::Value;
use crate::model::Version;
use crate::protocol::request::ServerTools;
use crate::protocol::shared::tools::{Declaration, check_name};
use crate::wire::{Node, Path};

use super::custom_tools::custom_tool;
use super::names::Names;
use super::tools::{Execution, FunctionTool, NamespaceMember, NamespaceTool, ResponsesTool, ToolSearchTool};

/// The tool that searches for tools.
pub(super) const TOOL_SEARCH: &str = "tool_search";

/// All tools of a request.
pub(super) struct Toolbox<'v> {
    version: Version,
    web_search: ServerTools,
    /// Whether the choice hides the tools, so that only the form of their names is checked.
    hidden: bool,
    names: Names<'v>,
    /// The tools in order, found ones last.
    pub(super) tools: Vec<Tool<'v>>,
    /// Names of tools that take free text.
    pub(super) custom_tools: Vec<String>,
    /// Declared tools of namespaces: name in the prompt, namespace, name within it.
    pub(super) namespace_tools: Vec<(String, String, String)>,
    /// Tools that were left out.
    pub(super) warnings: Vec<String>,
}

impl<'v> Toolbox<'v> {
    /// No tools yet.
    pub(super) fn new(version: Version, web_search: ServerTools, hidden: bool) -> Self {
        Self {
            version,
            web_search,
            hidden,
            names: Names::new(version.namespace_separator()),
            tools: Vec::new(),
            custom_tools: Vec::new(),
            namespace_tools: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Adds the declared tools.
    pub(super) fn declare(&mut self, tools: &[ResponsesTool<'v>], path: &Path<'_>) -> Result<(), Error> {
        self.tools = self.read(tools, path)?;
        Ok(())
    }

    /// Adds tools that were found, and gives what is shown of them.
    pub(super) fn find(&mut self, tools: &[ResponsesTool<'v>], path: &Path<'_>) -> Result<Vec<Tool<'v>>, Error> {
        let declared = self.namespace_tools.len();
        let mut found = self.read(tools, path)?;
        // Answers name found tools as the prompt does.
        self.namespace_tools.truncate(declared);
        for tool in &mut found {
            tool.deferred = true;
        }
        self.tools.extend(found.iter().cloned());
        Ok(found)
    }

    /// Whether there are any tools, hidden or not.
    pub(super) fn has_tools(&self) -> bool {
        !self.names.is_empty()
    }

    /// The name in the prompt of a tool that was called.
    pub(super) fn called(&mut self, namespace: Option<&'v str>, name: &'v str) -> Cow<'v, str> {
        match namespace {
            Some(namespace) => self.names.called(namespace, name).into(),
            None => name.into(),
        }
    }

    /// The tools of a list as the model sees them; none if they are hidden.
    fn read(&mut self, tools: &[ResponsesTool<'v>], path: &Path<'_>) -> Result<Vec<Tool<'v>>, Error> {
        self.take_plain_names(tools, path)?;
        let mut list = Vec::with_capacity(tools.len());
        for (index, tool) in tools.iter().enumerate() {
            let item = Path::Index(path, index);
            match tool {
                ResponsesTool::Function(function) => {
                    let description = function.description.map(Cow::Borrowed);
                    list.extend(self.function(function.name.into(), description, function, &item)?);
                }
                ResponsesTool::Custom(custom) => {
                    self.custom_tools.push(custom.name.to_owned());
                    if !self.hidden {
                        list.push(custom_tool(custom, &item, self.version)?);
                    }
                }
                ResponsesTool::Namespace(namespace) => self.namespace(namespace, &item, &mut list)?,
                ResponsesTool::ToolSearch(search) if self.has_search(search) => {
                    let description = search.description.map(Cow::Borrowed);
                    list.extend(self.tool(TOOL_SEARCH.into(), description, search.parameters, None, &item)?);
                }
                ResponsesTool::WebSearch(_) | ResponsesTool::ToolSearch(_) | ResponsesTool::Unknown(_) => {
                    self.warnings.push(format!("{item}: the tool {} was left out", tool.kind()));
                }
            }
        }
        Ok(list)
    }

    /// Whether the model is to see a tool that searches for tools.
    fn has_search(&self, search: &ToolSearchTool<'_>) -> bool {
        self.version.has_system_turns() && search.execution == Some(Execution::Client)
    }

    /// Checks all names of a list, and takes those that stay as they are: they come before those of namespaces.
    fn take_plain_names(&mut self, tools: &[ResponsesTool<'v>], path: &Path<'_>) -> Result<(), Error> {
        for (index, tool) in tools.iter().enumerate() {
            let item = Path::Index(path, index);
            let name = match tool {
                ResponsesTool::Function(function) => checked_name(function.name, &item)?,
                ResponsesTool::Custom(tool) => checked_name(tool.name, &item)?,
                ResponsesTool::ToolSearch(search) if self.has_search(search) => TOOL_SEARCH,
                ResponsesTool::Namespace(namespace) => {
                    check_namespace(namespace, &item)?;
                    continue;
                }
                ResponsesTool::WebSearch(_) if self.web_search == ServerTools::Reject => {
                    let path = Path::Key(&item, "type").to_string();
                    return Err(Error::new(ErrorCode::Unsupported, path, &[("found", &tool.kind())]));
                }
                ResponsesTool::WebSearch(_) | ResponsesTool::ToolSearch(_) | ResponsesTool::Unknown(_) => continue,
            };
            if !self.names.take(name) && !self.hidden {
                return Err(Error::new(ErrorCode::DuplicateToolName, item.to_string(), &[("found", &name)]));
            }
        }
        Ok(())
    }

    fn namespace(
        &mut self,
        namespace: &NamespaceTool<'v>,
        item: &Path<'_>,
        list: &mut Vec<Tool<'v>>,
    ) -> Result<(), Error> {
        let shared = namespace.description.filter(|text| !text.is_empty() && self.version.has_system_turns());
        let path = Path::Key(item, "tools");
        for (index, member) in namespace.tools.iter().enumerate() {
            let NamespaceMember::Function(function) = member else { continue };
            let name = self.names.flatten(namespace.name, function.name);
            self.namespace_tools.push((name.clone(), namespace.name.to_owned(), function.name.to_owned()));
            let description = match shared {
                Some(shared) => Some(format!("{shared}\n{}", function.description.unwrap_or_default()).into()),
                None => function.description.map(Cow::Borrowed),
            };
            list.extend(self.function(name.into(), description, function, &Path::Index(&path, index))?);
        }
        Ok(())
    }

    fn function(
        &self,
        name: Cow<'v, str>,
        description: Option<Cow<'v, str>>,
        function: &FunctionTool<'v>,
        item: &Path<'_>,
    ) -> Result<Option<Tool<'v>>, Error> {
        self.tool(name, description, function.parameters, function.strict, item)
    }

    fn tool(
        &self,
        name: Cow<'v, str>,
        description: Option<Cow<'v, str>>,
        parameters: Option<&'v Value<'v>>,
        strict: Option<bool>,
        item: &Path<'_>,
    ) -> Result<Option<Tool<'v>>, Error> {
        if self.hidden {
            return Ok(None);
        }
        let path = Path::Key(item, "parameters");
        let parameters = parameters.map(|value| Node { value, path: &path });
        Declaration { name, description, parameters, strict, deferred: false }.into_tool().map(Some)
    }
}

fn checked_name<'v>(name: &'v str, item: &Path<'_>) -> Result<&'v str, Error> {
    check_name(name, &Path::Key(item, "name"))?;
    Ok(name)
}

fn check_namespace(namespace: &NamespaceTool<'_>, item: &Path<'_>) -> Result<(), Error> {
    checked_name(namespace.name, item)?;
    let path = Path::Key(item, "tools");
    let mut seen = HashSet::new();
    for (index, member) in namespace.tools.iter().enumerate() {
        let item = Path::Index(&path, index);
        match member {
            NamespaceMember::Function(function) => {
                let name = checked_name(function.name, &item)?;
                if !seen.insert(name) {
                    return Err(Error::new(ErrorCode::DuplicateToolName, item.to_string(), &[("found", &name)]));
                }
            }
            NamespaceMember::Custom(tool) => {
                let found = format!("the custom tool {} in a namespace", tool.name);
                return Err(Error::new(ErrorCode::Unsupported, item.to_string(), &[("found", &found)]));
            }
        }
    }
    Ok(())
}
