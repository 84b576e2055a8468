//! The blocks of Messages content, field by field.

use crate::history::is_record;
use crate::json::Value;
use crate::protocol::shared::content::TextOr;
use crate::wire::{wire_object, wire_tagged, wire_words};

wire_tagged! {
    /// A block of a message.
    pub(crate) enum Block<'v> by "type" {
        /// Text.
        Text(TextBlock<'v>) = "text",
        /// An image.
        Image(ImageBlock<'v>) = "image",
        /// A document; its kind is shown, or its text if the codec's options say so.
        Document(DocumentBlock<'v>) = "document",
        /// What the model thought.
        Thinking(ThinkingBlock<'v>) = "thinking",
        /// What the model thought, in a form that only another server can read, which is left out; or a record.
        RedactedThinking(RedactedBlock<'v>) = "redacted_thinking",
        /// A call that a server ran.
        ServerToolUse(ToolUseBlock<'v>) = "server_tool_use",
        /// A call.
        ToolUse(ToolUseBlock<'v>) = "tool_use",
        /// The result of a call.
        ToolResult(ToolResultBlock<'v>) = "tool_result",
        /// The result of a search that a server ran.
        WebSearchToolResult(ServerResultBlock<'v>) = "web_search_tool_result",
        /// Shows a deferred tool from here on.
        ToolAddition(ToolAdditionBlock<'v>) = "tool_addition",
    }
}

impl Block<'_> {
    /// The word in the member `type`.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Block::Text(_) => "text",
            Block::Image(_) => "image",
            Block::Document(_) => "document",
            Block::Thinking(_) => "thinking",
            Block::RedactedThinking(_) => "redacted_thinking",
            Block::ServerToolUse(_) => "server_tool_use",
            Block::ToolUse(_) => "tool_use",
            Block::ToolResult(_) => "tool_result",
            Block::WebSearchToolResult(_) => "web_search_tool_result",
            Block::ToolAddition(_) => "tool_addition",
        }
    }
}

wire_object! {
    /// Text.
    pub(crate) struct TextBlock<'v> {
        /// The text.
        text: &'v str,
    }
}

wire_object! {
    /// An image.
    pub(crate) struct ImageBlock<'v> {
        /// Where it comes from.
        source: ImageBlockSource<'v>,
    }
}

wire_tagged! {
    /// Where an image comes from.
    pub(crate) enum ImageBlockSource<'v> by "type" {
        /// From this very request.
        Base64(Base64Image<'v>) = "base64",
        /// From the web.
        Url(UrlImage<'v>) = "url",
        /// From a file; not supported.
        File(FileImage<'v>) = "file",
    }
}

wire_object! {
    /// An image in base64.
    pub(crate) struct Base64Image<'v> {
        /// Its kind.
        media_type: ImageMediaType,
        /// Its bytes, padded and without white space.
        data: &'v str,
    }
}

wire_words! {
    /// Kinds of images.
    pub(crate) enum ImageMediaType {
        /// JPEG.
        Jpeg = "image/jpeg",
        /// JPEG.
        Jpg = "image/jpg",
        /// PNG.
        Png = "image/png",
        /// GIF.
        Gif = "image/gif",
        /// WebP.
        Webp = "image/webp",
    }
}

impl ImageMediaType {
    /// The media type itself.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            ImageMediaType::Jpeg => "image/jpeg",
            ImageMediaType::Jpg => "image/jpg",
            ImageMediaType::Png => "image/png",
            ImageMediaType::Gif => "image/gif",
            ImageMediaType::Webp => "image/webp",
        }
    }
}

wire_object! {
    /// An image on the web.
    pub(crate) struct UrlImage<'v> {
        /// `http` or `https`.
        url: &'v str,
    }
}

wire_object! {
    /// An image in a file.
    pub(crate) struct FileImage<'v> {
        /// Not supported.
        file_id: &'v str,
    }
}

wire_object! {
    /// A document.
    pub(crate) struct DocumentBlock<'v> {
        /// Where it comes from.
        source: DocumentSource<'v>,
        /// Its title, shown with a text.
        title: Option<&'v Value<'v>>,
        /// What else is to be known of it, shown with a text.
        context: Option<&'v Value<'v>>,
    }
}

wire_object! {
    /// Where a document comes from.
    pub(crate) struct DocumentSource<'v> {
        /// `text` for one in plain text; others are not read.
        kind as "type": Option<&'v Value<'v>>,
        /// Its kind.
        media_type: Option<&'v str>,
        /// Its text.
        data: Option<&'v Value<'v>>,
    }
}

wire_object! {
    /// What the model thought.
    pub(crate) struct ThinkingBlock<'v> {
        /// The text.
        thinking: &'v str,
        /// The record that came with it, or any text, which is then without effect.
        signature: Option<&'v str>,
    }
}

wire_object! {
    /// What the model thought, unreadable, or a record.
    pub(crate) struct RedactedBlock<'v> {
        /// The record that ended an answer, or anything else, which is then without effect.
        data: Option<&'v Value<'v>>,
    }
}

impl<'v> RedactedBlock<'v> {
    /// The record, if it is one.
    pub(super) fn record(&self) -> Option<&'v str> {
        self.data.and_then(Value::as_str).filter(|data| is_record(data))
    }
}

wire_object! {
    /// The result of a server tool. It is left out or refused, whatever it holds.
    pub(crate) struct ServerResultBlock<'v> {
        /// Which call it answers.
        tool_use_id: &'v str,
        /// What the tool returned.
        content: &'v Value<'v>,
    }
}

wire_object! {
    /// A call.
    pub(crate) struct ToolUseBlock<'v> {
        /// Its id.
        id: &'v str,
        /// Which tool.
        name: &'v str,
        /// The arguments, an object as a rule.
        input: &'v Value<'v>,
    }
}

wire_object! {
    /// The result of a call.
    pub(crate) struct ToolResultBlock<'v> {
        /// Which call it answers.
        tool_use_id: &'v str,
        /// What the tool returned.
        content: Option<TextOr<'v, ResultBlock<'v>>>,
        /// Whether the tool failed; the model is told so if the codec's options say so.
        is_error: Option<bool>,
    }
}

wire_tagged! {
    /// A block of a result.
    pub(crate) enum ResultBlock<'v> by "type" {
        /// Text.
        Text(TextBlock<'v>) = "text",
        /// An image.
        Image(ImageBlock<'v>) = "image",
        /// A document; its kind is shown, or its text if the codec's options say so.
        Document(DocumentBlock<'v>) = "document",
        /// Names a tool that was found.
        ToolReference(ToolReferenceBlock<'v>) = "tool_reference",
    }
}

wire_object! {
    /// Names a tool that was found.
    pub(crate) struct ToolReferenceBlock<'v> {
        /// A declared tool.
        tool_name: &'v str,
    }
}

wire_object! {
    /// Shows a deferred tool from here on.
    pub(crate) struct ToolAdditionBlock<'v> {
        /// Which.
        tool: AddedTool<'v>,
    }
}

wire_tagged! {
    /// A tool that is shown.
    pub(crate) enum AddedTool<'v> by "type" {
        /// By its name.
        ToolReference(NamedTool<'v>) = "tool_reference",
    }
}

wire_object! {
    /// The name of a tool.
    pub(crate) struct NamedTool<'v> {
        /// A declared tool.
        name: &'v str,
    }
}
