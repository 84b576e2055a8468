//! Responses input: the pieces that single items hold.

use crate::conversation::{Content, Part};
use crate::error::{Error, ErrorCode};
use crate::json::{Object, Value, write_rewritten, write_string};
use crate::model::Version;
use crate::protocol::shared::content::TextOr;
use crate::protocol::shared::images::{self, Location};
use crate::wire::Path;

use super::items::{ContentPart, ImagePart, ItemRole, MessageItem, OutputPart};

/// What is shown of a file.
const UNSUPPORTED_FILE: &str = "[Unsupported Document]";

/// What a message says.
pub(super) fn message<'v>(
    item: &MessageItem<'v>,
    item_path: &Path<'_>,
    version: Version,
) -> Result<Content<'v>, Error> {
    let convert = |part: &ContentPart<'v>, path: &Path<'_>| match part {
        ContentPart::InputText(part) | ContentPart::OutputText(part) => Ok(Part::Text(part.text.into())),
        ContentPart::InputFile(_) => Ok(Part::Text(UNSUPPORTED_FILE.into())),
        ContentPart::InputImage(_) if item.role == ItemRole::Assistant && version.sees_images() => {
            Err(Error::new(ErrorCode::MisplacedImage, path.to_string(), &[]))
        }
        ContentPart::InputImage(part) => image(part, item_path, path, version),
    };
    content(&item.content, &Path::Key(item_path, "content"), convert)
}

/// What a tool returned.
pub(super) fn output<'v>(
    output: &TextOr<'v, OutputPart<'v>>,
    item_path: &Path<'_>,
    version: Version,
) -> Result<Content<'v>, Error> {
    let convert = |part: &OutputPart<'v>, path: &Path<'_>| match part {
        OutputPart::Text(part) => Ok(Part::Text(part.text.into())),
        OutputPart::File(_) => Ok(Part::Text(UNSUPPORTED_FILE.into())),
        OutputPart::Image(part) => image(part, item_path, path, version),
    };
    content(output, &Path::Key(item_path, "output"), convert)
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

/// An image; its source is listed under the place of its item.
fn image<'v>(part: &ImagePart<'v>, item_path: &Path<'_>, path: &Path<'_>, version: Version) -> Result<Part<'v>, Error> {
    if let Some(part) = images::unsupported(version) {
        return Ok(part);
    }
    match (part.image_url, part.file_id) {
        (Some(text), None) => {
            let url = Location { text, path: &Path::Key(path, "image_url") };
            images::from_url(url, part.detail.into(), item_path.to_string(), version)
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
