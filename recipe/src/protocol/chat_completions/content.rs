//! The parts of Chat Completions content, field by field.

use crate::protocol::shared::images::DetailWord;
use crate::wire::{wire_object, wire_tagged};

wire_tagged! {
    /// A piece of content.
    pub(crate) enum ContentPart<'v> by "type" {
        /// Text.
        Text(TextPart<'v>) = "text",
        /// Text, as the Responses protocol names it.
        InputText(TextPart<'v>) = "input_text",
        /// Text of the model, as the Responses protocol names it.
        OutputText(TextPart<'v>) = "output_text",
        /// The model's refusal to answer; text as any other.
        Refusal(RefusalPart<'v>) = "refusal",
        /// An image by its URL.
        ImageUrl(ImagePart<'v>) = "image_url",
        /// An image as a file.
        File(FilePart<'v>) = "file",
    }
}

wire_object! {
    /// Text.
    pub(crate) struct TextPart<'v> {
        /// The text.
        text: &'v str,
    }
}

wire_object! {
    /// The model's refusal to answer.
    pub(crate) struct RefusalPart<'v> {
        /// The text.
        refusal: &'v str,
    }
}

wire_object! {
    /// An image by its URL.
    pub(crate) struct ImagePart<'v> {
        /// The URL in its wrapper.
        image_url: ImageUrl<'v>,
    }
}

wire_object! {
    /// An image's URL.
    pub(crate) struct ImageUrl<'v> {
        /// `http`, `https`, or `data` in base64.
        url: &'v str,
        /// How finely it is looked at.
        detail: Option<DetailWord>,
    }
}

wire_object! {
    /// An image as a file.
    pub(crate) struct FilePart<'v> {
        /// Not supported.
        file_id: Option<&'v str>,
        /// A data URL in base64.
        file_data: Option<&'v str>,
        /// Accepted, without effect.
        filename: Option<&'v str>,
    }
}
