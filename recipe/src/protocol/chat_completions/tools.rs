//! The tools of the Chat Completions request, field by field.

use crate::json::Value;
use crate::wire::{wire_object, wire_words};

wire_words! {
    /// The one type of tools.
    pub(crate) enum FunctionWord {
        /// A function.
        Function = "function",
    }
}

wire_object! {
    /// A declared tool.
    pub(crate) struct ChatTool<'v> {
        /// Always `function`.
        kind as "type": FunctionWord,
        /// The function.
        function: DeclaredFunction<'v>,
    }
}

wire_object! {
    /// A declared function.
    pub(crate) struct DeclaredFunction<'v> {
        /// Up to 128 letters, digits, `_` and `-`.
        name: &'v str,
        /// What it does.
        description: Option<&'v str>,
        /// JSON Schema of its arguments.
        parameters: Option<&'v Value<'v>>,
        /// Whether arguments must follow the schema exactly.
        strict: Option<bool>,
    }
}
