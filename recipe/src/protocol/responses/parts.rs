//! Responses input: the pieces that single items hold.

use crate::conversation::{Content, Part};
use crate::error::{Error, ErrorCode};
use crate::json::{Object, Value, write_rewritten, write_string};
use crate::model::Version;
use crate::protocol::shared::content::TextOr;
use crate::protocol::shared::images::{self, Location};
use crate::wire::Path;

use super::items::{ContentPart, ImagePart, ItemRole, MessageItem, OutputPart};
use super::tools::{FunctionTool, NamespaceMember, NamespaceTool, ResponsesTool};

/// What is shown of a file.
const UNSUPPORTED_FILE: &str = "[Unsupported Document]";

/// What a message says.
pub(super) fn message<'v>(
    item: &MessageItem<'v>,
    index: usize,
    path: &Path<'_>,
    version: Version,
) -> Result<Content<'v>, Error> {
    let convert = |part: &ContentPart<'v>, path: &Path<'_>| match part {
        ContentPart::InputText(part) | ContentPart::OutputText(part) => Ok(Part::Text(part.text.into())),
        ContentPart::InputFile(_) => Ok(Part::Text(UNSUPPORTED_FILE.into())),
        ContentPart::InputImage(_) if item.role == ItemRole::Assistant && version.sees_images() => {
            Err(Error::new(ErrorCode::MisplacedImage, path.to_string(), &[]))
        }
        ContentPart::InputImage(part) => image(part, index, path, version),
    };
    content(&item.content, &Path::Key(path, "content"), convert)
}

/// What a tool returned.
pub(super) fn output<'v>(
    output: &TextOr<'v, OutputPart<'v>>,
    index: usize,
    path: &Path<'_>,
    version: Version,
) -> Result<Content<'v>, Error> {
    let convert = |part: &OutputPart<'v>, path: &Path<'_>| match part {
        OutputPart::Text(part) => Ok(Part::Text(part.text.into())),
        OutputPart::File(_) => Ok(Part::Text(UNSUPPORTED_FILE.into())),
        OutputPart::Image(part) => image(part, index, path, version),
    };
    content(output, &Path::Key(path, "output"), convert)
}

fn content<'v, T>(
    content: &TextOr<'v, T>,
    path: &Path<'_>,
    convert: impl Fn(&T, &Path<'_>) -> Result<Part<'v>, Error>,
) -> Result<Content<'v>, Error> {
    let parts = match content {
        TextOr::Text(text) => return Ok((*text).into()),
        TextOr::Parts(parts) => parts,
    };
    let convert = |(index, part)| convert(part, &Path::Index(path, index));
    Ok(Content::joined(parts.iter().enumerate().map(convert).collect::<Result<Vec<_>, _>>()?))
}

fn image<'v>(part: &ImagePart<'v>, index: usize, path: &Path<'_>, version: Version) -> Result<Part<'v>, Error> {
    if let Some(part) = images::unsupported(version) {
        return Ok(part);
    }
    match (part.image_url, part.file_id) {
        (Some(text), None) => {
            let url = Location { text, path: &Path::Key(path, "image_url") };
            images::from_url(url, part.detail.into(), format!("input[{index}]"), version)
        }
        (None, Some(_)) => Err(images::file_id_fault(path)),
        _ => Err(Error::new(ErrorCode::ExactlyOne, path.to_string(), &[("expected", &"image_url, file_id")])),
    }
}

/// The arguments of a call with free text: an object with that text.
pub(super) fn custom_arguments(input: &str) -> String {
    let mut arguments = String::from("{\"input\":");
    write_string(input, &mut arguments);
    arguments.push('}');
    arguments
}

/// The arguments of a search for tools, as JSON text.
pub(super) fn search_arguments(arguments: &Object<'_>) -> String {
    let mut text = String::new();
    write_rewritten(&Value::Object(arguments.clone()), &mut text);
    text
}

/// What the model reads of tools that were found: a JSON array of their declarations.
pub(super) fn found_tools(tools: &[ResponsesTool<'_>], path: &Path<'_>) -> Result<String, Error> {
    let mut out = String::from("[");
    for (index, tool) in tools.iter().enumerate() {
        match tool {
            ResponsesTool::Function(function) => write_function(function, None, &mut out),
            ResponsesTool::Namespace(namespace) => {
                for member in &namespace.tools {
                    if let NamespaceMember::Function(function) = member {
                        write_function(function, Some(namespace), &mut out);
                    }
                }
            }
            ResponsesTool::Custom(tool) => {
                open_tool("{\"type\":\"custom\",\"name\":", &mut out);
                write_string(tool.name, &mut out);
                out.push('}');
            }
            ResponsesTool::WebSearch(kind) | ResponsesTool::Unknown(kind) => return Err(not_found(kind, index, path)),
            ResponsesTool::ToolSearch(_) => return Err(not_found("tool_search", index, path)),
        }
    }
    out.push(']');
    Ok(out)
}

fn not_found(kind: &str, index: usize, path: &Path<'_>) -> Error {
    let found = format!("the tool {kind} as the result of a search");
    Error::new(ErrorCode::Unsupported, Path::Index(path, index).to_string(), &[("found", &found)])
}

fn open_tool(start: &str, out: &mut String) {
    if out.len() > 1 {
        out.push(',');
    }
    out.push_str(start);
}

fn write_function(function: &FunctionTool<'_>, namespace: Option<&NamespaceTool<'_>>, out: &mut String) {
    open_tool("{\"type\":\"function\",\"name\":", out);
    write_string(function.name, out);
    out.push_str(",\"description\":");
    write_optional(function.description, out);
    out.push_str(",\"parameters\":");
    write_rewritten(function.parameters.unwrap_or(&Value::Null), out);
    out.push_str(",\"strict\":");
    out.push_str(function.strict.map_or("null", |strict| if strict { "true" } else { "false" }));
    if let Some(namespace) = namespace {
        out.push_str(",\"namespace\":{\"name\":");
        write_string(namespace.name, out);
        out.push_str(",\"description\":");
        write_string(namespace.description.unwrap_or_default(), out);
        out.push('}');
    }
    out.push('}');
}

fn write_optional(text: Option<&str>, out: &mut String) {
    match text {
        Some(text) => write_string(text, out),
        None => out.push_str("null"),
    }
}
