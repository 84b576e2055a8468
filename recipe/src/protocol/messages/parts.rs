//! Messages request → conversation: single blocks.

use crate::conversation::{Content, JOINER, Part};
use crate::error::Error;
use crate::json::Value;
use crate::protocol::shared::images::{self, Location};
use crate::wire::Path;

use super::blocks::{DocumentBlock, ImageBlock, ImageBlockSource};
use super::transcript::Reader;

impl<'v> Reader<'_, 'v> {
    /// The part that stands for an image; `listed` is the path its source is listed under.
    pub(super) fn image(&self, block: &ImageBlock<'v>, path: &Path<'_>, listed: String) -> Result<Part<'v>, Error> {
        let source = Path::Key(path, "source");
        match &block.source {
            ImageBlockSource::Base64(image) => {
                let data = Location { text: image.data, path: &Path::Key(&source, "data") };
                images::from_base64(data, image.media_type.as_str(), listed, self.version)
            }
            ImageBlockSource::Url(image) => {
                let url = Location { text: image.url, path: &Path::Key(&source, "url") };
                images::from_web_url(url, listed, self.version)
            }
            ImageBlockSource::File(_) => {
                images::unsupported(self.version).ok_or_else(|| images::file_id_fault(&source))
            }
        }
    }

    /// What is shown of a document: its kind, or the whole of a plain text with its title and context, if asked for.
    pub(super) fn document(&self, block: &DocumentBlock<'v>) -> Part<'v> {
        let text = |value: Option<&'v Value<'v>>| value.and_then(Value::as_str);
        let shown = self.options.show_text_documents && text(block.source.kind) == Some("text");
        let Some(data) = text(block.source.data).filter(|_| shown) else {
            let media_type = block.source.media_type.unwrap_or("unknown");
            return Part::Text(format!("[Unsupported document type: {media_type}]").into());
        };
        let around = [text(block.title), text(block.context)].into_iter().flatten();
        let pieces: Vec<&str> = around.filter(|text| !text.is_empty()).chain([data]).collect();
        Part::Text(pieces.join(JOINER).into())
    }
}

/// What the model reads before the result of a tool that failed, as if it were the result's first block.
const TOOL_ERROR: &str = "[Tool Error]";

/// The result of a tool that failed, marked as such.
pub(super) fn tool_error(content: Content<'_>) -> Content<'_> {
    let mark = Part::Text(TOOL_ERROR.into());
    if content.is_empty() {
        return Content(vec![mark]);
    }
    Content([mark, Part::Text(JOINER.into())].into_iter().chain(content.0).collect())
}

/// Later instructions, for a version that knows instructions only at the start.
pub(super) fn reminder(content: Content<'_>) -> Content<'_> {
    let open = Part::Text("<system-reminder>\n".into());
    let close = Part::Text("\n</system-reminder>".into());
    Content([open].into_iter().chain(content.0).chain([close]).collect())
}
