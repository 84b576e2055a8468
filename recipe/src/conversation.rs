//! What was said, in one form for all protocols and all prompt versions.
//!
//! Owns the request's meaning and nothing of its spelling: protocols write a [`Conversation`], prompt formats read it,
//! and neither knows the other. Everything borrows from the request body.

use std::borrow::Cow;

use crate::json::{FloatStyle, Value, write_python};

/// A request's messages, tools and modes.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation<'a> {
    /// The messages in order.
    pub messages: Vec<Message<'a>>,
    /// Declared tools, deferred ones included.
    pub tools: Vec<Tool<'a>>,
    /// Whether the model may, must or must not call tools.
    pub tool_choice: ToolChoice,
    /// Whether the model thinks before it answers.
    pub thinking: bool,
    /// How hard it thinks; `None` is the version's default. Without meaning when `thinking` is off.
    pub effort: Option<Effort>,
    /// Form of the answer.
    pub response_format: ResponseFormat<'a>,
}

impl Default for Conversation<'_> {
    fn default() -> Self {
        Self {
            messages: Vec::new(),
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            thinking: true,
            effort: None,
            response_format: ResponseFormat::Text,
        }
    }
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub enum Message<'a> {
    /// Instructions; later ones may bring further tools.
    System {
        /// Text.
        content: Content<'a>,
        /// Tools that this message adds.
        tools: Vec<Tool<'a>>,
    },
    /// What the user said.
    User {
        /// Text and images.
        content: Content<'a>,
    },
    /// What the model said.
    Assistant(AssistantMessage<'a>),
    /// The result of a call.
    Tool {
        /// Which call it answers.
        call_id: Option<Cow<'a, str>>,
        /// Text and images.
        content: Content<'a>,
    },
    /// A reminder shown just before the answer.
    LatestReminder {
        /// Text.
        content: Content<'a>,
    },
}

impl<'a> Message<'a> {
    /// What the message says.
    pub fn content(&self) -> &Content<'a> {
        match self {
            Message::System { content, .. }
            | Message::User { content }
            | Message::Tool { content, .. }
            | Message::LatestReminder { content } => content,
            Message::Assistant(turn) => &turn.content,
        }
    }
}

/// A turn of the model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AssistantMessage<'a> {
    /// Answer text.
    pub content: Content<'a>,
    /// Reasoning text; `None` when there was none or it was not kept.
    pub reasoning: Option<Cow<'a, str>>,
    /// Calls in order.
    pub calls: Vec<ToolCall<'a>>,
    /// Whether the model is to continue this very message.
    pub prefix: bool,
    /// Whether thinking is over in a prefix that has no content yet; it is over in one that has.
    pub thinking_closed: bool,
    /// Records of the ids that the model wrote, as they came back; nothing is known of them yet.
    pub records: Vec<&'a str>,
}

impl AssistantMessage<'_> {
    /// Whether the model is to go on thinking, if it thinks at all.
    pub fn leaves_thinking_open(&self) -> bool {
        self.prefix && !self.thinking_closed && self.content.is_empty()
    }
}

/// A call the model made.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall<'a> {
    /// Id that the result refers to.
    pub id: Option<Cow<'a, str>>,
    /// Name of the tool.
    pub name: Cow<'a, str>,
    /// Arguments as the client sent them.
    pub arguments: Arguments<'a>,
}

/// Arguments of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Arguments<'a> {
    /// JSON text as a rule, but any text is allowed.
    Text(Cow<'a, str>),
    /// JSON that is part of the request.
    Value(&'a Value<'a>),
}

impl Arguments<'_> {
    /// The arguments as text.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Arguments::Text(text) => Cow::Borrowed(text),
            Arguments::Value(value) => {
                let mut text = String::new();
                write_python(value, FloatStyle::V4, &mut text);
                Cow::Owned(text)
            }
        }
    }
}

impl<'a, T: Into<Cow<'a, str>>> From<T> for Arguments<'a> {
    fn from(text: T) -> Self {
        Arguments::Text(text.into())
    }
}

/// A tool the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool<'a> {
    /// Name, with its namespace where it has one.
    pub name: Cow<'a, str>,
    /// What it does.
    pub description: Option<Cow<'a, str>>,
    /// JSON Schema of its arguments, as the prompt shows it.
    pub parameters: Value<'a>,
    /// JSON Schema that the arguments are held to, where it is not the one that is shown.
    pub enforced: Option<Value<'a>>,
    /// Whether arguments must follow the schema exactly.
    pub strict: Option<bool>,
    /// Whether its schema is shown only later.
    pub deferred: bool,
    /// JSON path of its schema in the request.
    pub path: String,
}

/// Whether tools may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// No calls.
    None,
    /// At least one call.
    Required,
}

/// How hard the model thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Briefly.
    Low,
    /// The usual.
    High,
    /// As `High` in both versions.
    ExtraHigh,
    /// As hard as it can.
    Max,
}

/// Form of the answer.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum ResponseFormat<'a> {
    /// Free text.
    #[default]
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON that follows a schema.
    JsonSchema(Cow<'a, Value<'a>>),
    /// Text that matches a regular expression.
    Regex(Cow<'a, str>),
    /// Text that follows a Lark grammar.
    Lark(Cow<'a, str>),
    /// One of some texts.
    Choice(Vec<&'a str>),
}

/// Text and images, in pieces that are printed one after the other. Joins between parts are pieces themselves, so that no
/// text is copied before the prompt is written.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Content<'a>(pub Vec<Part<'a>>);

/// A piece of content.
#[derive(Debug, Clone, PartialEq)]
pub enum Part<'a> {
    /// Text.
    Text(Cow<'a, str>),
    /// A place for an image.
    Image(ImageSource<'a>),
    /// An image that was given without a place; it is listed with the others and prints nothing.
    UnplacedImage(ImageSource<'a>),
}

/// Between two parts of one content, and between two messages that merge into one.
pub const JOINER: &str = "\n\n";

impl<'a> Content<'a> {
    /// Nothing.
    pub const EMPTY: Content<'static> = Content(Vec::new());

    /// Parts with [`JOINER`] between each two, also around empty ones.
    pub fn joined(parts: impl IntoIterator<Item = Part<'a>>) -> Self {
        let mut content = Vec::new();
        for part in parts {
            if !content.is_empty() {
                content.push(Part::Text(Cow::Borrowed(JOINER)));
            }
            content.push(part);
        }
        Content(content)
    }

    /// Whether it would print nothing.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|part| match part {
            Part::Text(text) => text.is_empty(),
            Part::Image(_) => false,
            Part::UnplacedImage(_) => true,
        })
    }

    /// The texts, images left out.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_ref()),
            Part::Image(_) | Part::UnplacedImage(_) => None,
        })
    }
}

impl<'a, T: Into<Cow<'a, str>>> From<T> for Content<'a> {
    fn from(text: T) -> Self {
        Content(vec![Part::Text(text.into())])
    }
}

/// Where an image comes from. The codec places it; fetching and decoding are the caller's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSource<'a> {
    /// URL or inline data.
    pub data: ImageData<'a>,
    /// How finely the model looks at it.
    pub detail: Detail,
    /// JSON path of the field in the request.
    pub path: String,
}

impl ImageSource<'_> {
    /// A copy that borrows nothing.
    pub fn into_owned(self) -> ImageSource<'static> {
        let own = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        let data = match self.data {
            ImageData::Url(url) => ImageData::Url(own(url)),
            ImageData::Base64 { media_type, data } => {
                ImageData::Base64 { media_type: own(media_type), data: own(data) }
            }
        };
        ImageSource { data, detail: self.detail, path: self.path }
    }
}

/// The image itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageData<'a> {
    /// `http` or `https` URL.
    Url(Cow<'a, str>),
    /// Base64 as the client sent it, with its media type.
    Base64 {
        /// `image/png` and the like, as written.
        media_type: Cow<'a, str>,
        /// The encoded bytes.
        data: Cow<'a, str>,
    },
}

/// How finely an image is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    /// Coarsely.
    Low,
    /// Finely.
    #[default]
    High,
    /// In its own size.
    Original,
    /// As the model sees fit.
    Auto,
}

impl Conversation<'_> {
    /// Whether tools are shown and calls are read: some are declared and the choice is not "none".
    pub fn uses_tools(&self) -> bool {
        !self.tools.is_empty() && self.tool_choice != ToolChoice::None
    }

    /// Whether `word` (ASCII, any case) occurs in the content of a message, within one part.
    pub fn says(&self, word: &str) -> bool {
        let occurs =
            |text: &str| text.as_bytes().windows(word.len()).any(|window| window.eq_ignore_ascii_case(word.as_bytes()));
        self.messages.iter().any(|message| message.content().texts().any(occurs))
    }
}
