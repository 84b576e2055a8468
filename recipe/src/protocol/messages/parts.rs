//! Messages request → conversation: single blocks.

use crate::conversation::{Content, Part};
use crate::error::Error;
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
}

/// What is shown of a document.
pub(super) fn document<'v>(block: &DocumentBlock<'v>) -> Part<'v> {
    let media_type = block.source.media_type.unwrap_or("unknown");
    Part::Text(format!("[Unsupported document type: {media_type}]").into())
}

/// Later instructions, for a version that knows instructions only at the start.
pub(super) fn reminder(content: Content<'_>) -> Content<'_> {
    let open = Part::Text("<system-reminder>\n".into());
    let close = Part::Text("\n</system-reminder>".into());
    Content([open].into_iter().chain(content.0).chain([close]).collect())
}
