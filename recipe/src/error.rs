//! The one error type of the codec, and the catalogue of everything that can be wrong with a request.
//!
//! Every fault has a stable code, an HTTP status, a JSON path that names the field, and a message that names the limit
//! and the value given. How an error looks on the wire is each protocol's own business (`protocol/*/error.rs`).

use std::fmt;

/// Something a client can correct: always one request's fault, never the process's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(Box<Inner>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Inner {
    kind: Kind,
    path: String,
    message: String,
}

/// A fault of the catalogue, or one that a server around the codec found.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Known(ErrorCode),
    Foreign { code: String, status: u16 },
}

impl Error {
    /// An error of kind `code` at the field `path` (`messages[2].content`, empty for the whole body).
    ///
    /// `values` fill the `{name}` places of the code's message template.
    pub fn new(code: ErrorCode, path: impl Into<String>, values: &[(&str, &dyn fmt::Display)]) -> Self {
        let path = path.into();
        let message = fill(code.template(), &path, values);
        Self(Box::new(Inner { kind: Kind::Known(code), path, message }))
    }

    /// An error that a server around the codec found: for its envelope, and for an answer that breaks off.
    pub fn foreign(code: impl Into<String>, status: u16, path: impl Into<String>, message: impl Into<String>) -> Self {
        let kind = Kind::Foreign { code: code.into(), status };
        Self(Box::new(Inner { kind, path: path.into(), message: message.into() }))
    }

    /// The stable code.
    pub fn code(&self) -> &str {
        match &self.0.kind {
            Kind::Known(code) => code.as_str(),
            Kind::Foreign { code, .. } => code,
        }
    }

    /// The entry of the catalogue, unless the error came from elsewhere.
    pub fn kind(&self) -> Option<ErrorCode> {
        match self.0.kind {
            Kind::Known(code) => Some(code),
            Kind::Foreign { .. } => None,
        }
    }

    /// JSON path of the field at fault, in the client's own body; empty when the body as a whole is at fault.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// What is wrong, in one sentence that names field, limit and value.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// HTTP status.
    pub fn status(&self) -> u16 {
        match self.0.kind {
            Kind::Known(code) => code.status(),
            Kind::Foreign { status, .. } => status,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {}

/// Fills a template in one pass, so that a value that looks like a place is left alone.
fn fill(template: &str, path: &str, values: &[(&str, &dyn fmt::Display)]) -> String {
    let mut message = String::with_capacity(template.len() + path.len() + 32);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, tail)) = after.split_once('}') else { break };
        message.push_str(before);
        match values.iter().find(|(key, _)| *key == name) {
            _ if name == "field" => message.push_str(if path.is_empty() { "the request body" } else { path }),
            Some((_, value)) => message.push_str(&shorten(&value.to_string())),
            None => debug_assert!(false, "no value for {name} in {template:?}"),
        }
        rest = tail;
    }
    message.push_str(rest);
    message
}

/// Values are shown, not echoed in full: a megabyte of text in an error helps nobody.
fn shorten(value: &str) -> String {
    const LIMIT: usize = 200;
    match value.char_indices().nth(LIMIT) {
        Some((cut, _)) => format!("{}…", &value[..cut]),
        None => value.to_owned(),
    }
}

macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $status:literal, $template:literal;)*) => {
        /// Every kind of fault. The message templates are the catalogue printed in `docs/errors.md`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorCode { $($(#[$doc])* $name,)* }

        impl ErrorCode {
            /// All codes, in catalogue order.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$name,)*];

            /// The stable wire name.
            pub fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$name => $code,)* }
            }

            /// HTTP status.
            pub fn status(self) -> u16 {
                match self { $(ErrorCode::$name => $status,)* }
            }

            /// Message with `{name}` places; `{field}` is the JSON path.
            pub fn template(self) -> &'static str {
                match self { $(ErrorCode::$name => $template,)* }
            }
        }
    };
}

error_codes! {
    /// The body is not JSON.
    InvalidJson = "invalid_json", 400, "the request body is not valid JSON: {detail} at byte {offset}";
    /// Arrays and objects are nested too deeply.
    NestingTooDeep = "nesting_too_deep", 400, "the request body is nested deeper than {limit} levels at byte {offset}";
    /// A required field is absent.
    MissingField = "missing_field", 400, "{field} is required";
    /// A field has the wrong JSON type.
    InvalidType = "invalid_type", 400, "{field} must be {expected}, not {found}";
    /// A number is outside its range.
    OutOfRange = "out_of_range", 400, "{field} must be {expected}, not {found}";
    /// A string is not one of the known words.
    UnknownValue = "unknown_value", 400, "{field} must be one of {expected}, not {found}";
    /// The model is not served.
    ModelNotFound = "model_not_found", 404, "{field}: the model {found} does not exist; available: {expected}";
    /// A list that may not be empty is.
    EmptyArray = "empty_array", 400, "{field} must hold at least one item";
    /// A list is too long.
    ArrayTooLong = "array_too_long", 400, "{field} must hold at most {limit} items, not {found}";
    /// A string that may not be empty is.
    EmptyString = "empty_string", 400, "{field} must not be an empty string";
    /// A string is too long.
    StringTooLong = "string_too_long", 400, "{field} must have at most {limit} characters, not {found}";
    /// A name has characters that names may not have.
    InvalidName = "invalid_name", 400, "{field} must match ^[a-zA-Z0-9_-]+$, not {found}";
    /// Two tools share a name.
    DuplicateToolName = "duplicate_tool_name", 400, "{field}: the tool {found} is declared more than once";
    /// A schema is none.
    InvalidSchema = "invalid_schema", 400, "{field} is not a usable JSON Schema: {detail}";
    /// A schema cannot be enforced.
    InvalidStrictSchema = "invalid_strict_schema", 400, "{field} does not fit strict mode: {detail}";
    /// A schema has something that cannot be enforced while the model writes.
    UnsupportedSchema = "unsupported_schema", 400, "{field} cannot be enforced: {detail}";
    /// A regular expression is none, or one that cannot be enforced.
    InvalidRegex = "invalid_regex", 400, "{field} is not a regular expression that can be enforced: {detail}";
    /// A grammar is none, or one that cannot be embedded.
    InvalidGrammar = "invalid_grammar", 400, "{field} is not a grammar that can be enforced: {detail}";
    /// Strict and other tools in one request.
    StrictMixed = "strict_mixed", 400, "{field}: strict and non-strict tools cannot be used in the same request";
    /// Strict tools and a response format in one request.
    StrictWithFormat = "strict_with_format", 400, "{field}: strict tools cannot be used with a response format";
    /// A choice names a tool that is not there.
    UnknownTool = "unknown_tool", 400, "{field} names the tool {found}, which is not declared";
    /// A call cannot be required while the model thinks.
    ToolChoiceWhileThinking = "tool_choice_while_thinking", 400, "{field}: a call cannot be required in thinking mode";
    /// Calls without results.
    MissingToolResult = "missing_tool_result", 400, "{field}: every call must be answered by a result right after it; missing: {found}";
    /// A result without a call.
    UnexpectedToolResult = "unexpected_tool_result", 400, "{field}: the result {found} answers no call right before it";
    /// An id that must be unique is not.
    DuplicateCallId = "duplicate_call_id", 400, "{field}: the call id {found} is used more than once";
    /// A message that says nothing.
    MissingContent = "missing_content", 400, "{field} must have content or tool calls";
    /// Reasoning of the current round was not sent back.
    MissingReasoning = "missing_reasoning", 400, "{field} of the current round must be sent back in thinking mode";
    /// A prefix in the middle.
    PrefixNotLast = "prefix_not_last", 400, "{field} may be true only on an assistant message that is the last message";
    /// A prefix together with something it excludes.
    PrefixConflict = "prefix_conflict", 400, "{field}: continuing a message cannot be combined with {found}";
    /// A setting that needs another one.
    Requires = "requires", 400, "{field} requires {expected}";
    /// JSON output without a word of it in the prompt.
    JsonWordMissing = "json_word_missing", 400, "{field}: a message must contain the word json to ask for a JSON object";
    /// Something the codec cannot honour.
    Unsupported = "unsupported", 400, "{field}: {found} is not supported";
    /// An earlier response or item that is not there.
    NotStored = "not_stored", 404, "{field}: nothing is stored under {found}";
    /// An earlier response that is none.
    InvalidStored = "invalid_stored", 500, "{field}: what is stored under {found} is neither a response nor a list of items";
    /// An image from a place that is not supported.
    UnsupportedImageUrl = "unsupported_image_url", 400, "{field} must be an http or https URL, or a data URL in base64";
    /// An image of a kind that is not supported.
    UnsupportedImageType = "unsupported_image_type", 400, "{field} must be an image of type {expected}, not {found}";
    /// Base64 that is none.
    InvalidBase64 = "invalid_base64", 400, "{field} is not valid base64";
    /// An image where none can be.
    MisplacedImage = "misplaced_image", 400, "{field}: assistant messages cannot hold images";
    /// A URL of a kind that is not supported.
    UnsupportedUrl = "unsupported_url", 400, "{field} must be an http or https URL";
    /// A block of content in a message that cannot hold it.
    MisplacedBlock = "misplaced_block", 400, "{field}: {found} blocks can only be in {expected} messages";
    /// Something stands between calls and their results.
    CallsNotAnswered = "calls_not_answered", 400, "{field}: results must directly follow the calls they answer; missing: {found}";
    /// Two results of one call.
    DuplicateToolResult = "duplicate_tool_result", 400, "{field}: the call {found} already has a result";
    /// No tool is shown at the start.
    AllToolsDeferred = "all_tools_deferred", 400, "{field}: at least one tool must not be deferred";
    /// A key that is no token id.
    InvalidTokenId = "invalid_token_id", 400, "{field}: the key must be a token id, not {found}";
    /// Neither or both of two fields that exclude each other.
    ExactlyOne = "exactly_one", 400, "{field} must have exactly one of {expected}";
    /// Prompt and answer do not fit.
    ContextLengthExceeded = "context_length_exceeded", 400, "the context holds {limit} tokens, but {sum} were asked for: {prompt} of the prompt and {completion} to generate";
    /// The tokenizer lacks a control token of the format.
    UnknownControlToken = "unknown_control_token", 500, "the tokenizer has no control token {found}";
    /// The backend sent a token that does not exist.
    UnknownToken = "unknown_token", 500, "the backend sent token {found}, which is not in the vocabulary";
    /// The backend sent tokens and log probabilities that do not pair up.
    LogprobsMismatch = "logprobs_mismatch", 500, "the backend sent {found} log probabilities for {expected} tokens";
    /// Tokens came for an answer that can only take text.
    TokenizerMissing = "tokenizer_missing", 500, "the backend sent tokens, but the answer has no tokenizer";
    /// Output came for a choice that the answer does not have.
    UnknownChoice = "unknown_choice", 500, "the backend sent output for choice {found} of an answer with {limit}";
    /// The backend broke off.
    BackendFailed = "backend_failed", 500, "the backend failed: {detail}";
}
