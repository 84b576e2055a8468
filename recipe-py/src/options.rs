//! `Options`: settings of the codec.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::prelude::*;
use recipe::codec;
use recipe::history::HistoryKey;
use recipe::protocol::{MissingReasoning, RequiredWhileThinking, ServerTools};
use recipe::special::Special;

use crate::errors::{argument_error, version};
use crate::tokenizer::Tokenizer;

/// Settings of the codec: made once, used for any number of requests.
#[pyclass(frozen, module = "deepseek_recipe")]
pub(crate) struct Options(pub(crate) codec::Options);

#[pymethods]
impl Options {
    #[new]
    #[pyo3(signature = (*, models=None, default_thinking=true, missing_reasoning="fill", responses_web_search="drop",
        messages_web_search="drop", max_tokens_bounds=(393_216, 393_216), special_tokens=None, tokenizers=None,
        required_choice_while_thinking="constrain", show_tool_errors=false, show_text_documents=false,
        history_key=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python constructor")]
    fn new(
        models: Option<HashMap<String, String>>,
        default_thinking: bool,
        missing_reasoning: &str,
        responses_web_search: &str,
        messages_web_search: &str,
        max_tokens_bounds: (u32, u32),
        special_tokens: Option<HashMap<String, String>>,
        tokenizers: Option<HashMap<String, PyRef<'_, Tokenizer>>>,
        required_choice_while_thinking: &str,
        show_tool_errors: bool,
        show_text_documents: bool,
        history_key: Option<Vec<u8>>,
    ) -> PyResult<Self> {
        let mut options = codec::Options::default();
        if let Some(models) = models {
            let entry = |(name, format): (String, String)| Ok((name, version(&format)?));
            options.read.models = models.into_iter().map(entry).collect::<PyResult<_>>()?;
        }
        options.read.default_thinking = default_thinking;
        options.read.missing_reasoning = match missing_reasoning {
            "fill" => MissingReasoning::Fill,
            "reject" => MissingReasoning::Reject,
            other => return Err(argument_error("missing_reasoning", "\"fill\" or \"reject\"", other)),
        };
        options.read.responses_web_search = server_tools("responses_web_search", responses_web_search)?;
        options.read.messages_web_search = server_tools("messages_web_search", messages_web_search)?;
        options.read.max_tokens_bounds = max_tokens_bounds;
        options.read.required_choice_while_thinking = match required_choice_while_thinking {
            "constrain" => RequiredWhileThinking::Constrain,
            "reject" => RequiredWhileThinking::Reject,
            other => {
                return Err(argument_error("required_choice_while_thinking", "\"constrain\" or \"reject\"", other));
            }
        };
        options.read.show_tool_errors = show_tool_errors;
        options.read.show_text_documents = show_text_documents;
        for (key, spelling) in special_tokens.into_iter().flatten() {
            options.spellings.push((special(&key)?, spelling));
        }
        for (name, tokenizer) in tokenizers.into_iter().flatten() {
            options.tokenizers.insert(version(&name)?.name(), Arc::clone(&tokenizer.0));
        }
        options.history_key = self::history_key(history_key)?;
        Ok(Self(options))
    }
}

/// The control token that an option names.
pub(crate) fn special(key: &str) -> PyResult<Special> {
    let expected = "the name of a control token (\"image\", \"thinking_end\", …)";
    Special::from_key(key).ok_or_else(|| argument_error("special_tokens", expected, key))
}

/// The secret of token-faithful history.
pub(crate) fn history_key(secret: Option<Vec<u8>>) -> PyResult<Option<HistoryKey>> {
    let Some(secret) = secret else { return Ok(None) };
    let expected = format!("at least {} bytes", HistoryKey::SHORTEST);
    let found = || argument_error("history_key", &expected, &format!("{} bytes", secret.len()));
    HistoryKey::new(&secret).map(Some).ok_or_else(found)
}

fn server_tools(name: &str, value: &str) -> PyResult<ServerTools> {
    match value {
        "drop" => Ok(ServerTools::Drop),
        "reject" => Ok(ServerTools::Reject),
        other => Err(argument_error(name, "\"drop\" or \"reject\"", other)),
    }
}
