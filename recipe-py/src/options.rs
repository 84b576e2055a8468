//! `Options`: settings of the codec.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use recipe::codec;
use recipe::history::HistoryKey;
use recipe::model::Version;
use recipe::protocol::{MissingReasoning, RequiredWhileThinking, ServerTools};
use recipe::special::Special;
use recipe::tokenizer::RangeCache;

use crate::errors::{argument_error, version};
use crate::tokenizer::Tokenizer;

/// Settings of the codec: made once, used for any number of requests.
#[pyclass(frozen, module = "deepseek_recipe")]
pub(crate) struct Options(pub(crate) Arc<codec::Options>);

#[pymethods]
impl Options {
    #[new]
    #[pyo3(signature = (*, models=None, default_thinking=true, missing_reasoning="fill", responses_web_search="drop",
        messages_web_search="drop", max_tokens_bounds=(393_216, 393_216), special_tokens=None, tokenizers=None,
        required_choice_while_thinking="constrain", show_tool_errors=false, show_text_documents=false,
        history_key=None, threads=1, range_cache_bytes=0))]
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
        threads: usize,
        range_cache_bytes: usize,
    ) -> PyResult<Self> {
        let mut options = codec::Options::default();
        if let Some(models) = models {
            options.read.models = versions(models)?;
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
        for version in Version::ALL {
            let mut tokenizer = options.tokenizer(version).with_threads(threads);
            if range_cache_bytes > 0 {
                tokenizer = tokenizer.with_cache(Arc::new(RangeCache::new(range_cache_bytes)));
            }
            options.tokenizers.insert(version.name(), Arc::new(tokenizer));
        }
        Ok(Self(Arc::new(options)))
    }

    /// The same options for other names of models. Range caches are shared.
    fn with_models(&self, models: HashMap<String, String>) -> PyResult<Self> {
        let mut options = codec::Options::clone(&self.0);
        options.read.models = versions(models)?;
        Ok(Self(Arc::new(options)))
    }

    /// What the range caches of all versions hold, and how often they helped.
    #[getter]
    fn range_cache<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let caches = self.0.tokenizers.values().filter_map(|tokenizer| tokenizer.cache());
        let all: Vec<_> = caches.map(RangeCache::statistics).collect();
        let sum = PyDict::new(py);
        sum.set_item("hits", all.iter().map(|one| one.hits).sum::<u64>())?;
        sum.set_item("misses", all.iter().map(|one| one.misses).sum::<u64>())?;
        sum.set_item("hit_bytes", all.iter().map(|one| one.hit_bytes).sum::<u64>())?;
        sum.set_item("missed_bytes", all.iter().map(|one| one.missed_bytes).sum::<u64>())?;
        sum.set_item("held_bytes", all.iter().map(|one| one.held_bytes).sum::<usize>())?;
        sum.set_item("bound", all.iter().map(|one| one.bound).sum::<usize>())?;
        Ok(sum)
    }
}

/// Models by name, each with the version of its prompt.
fn versions<M: FromIterator<(String, Version)>>(models: HashMap<String, String>) -> PyResult<M> {
    models.into_iter().map(|(name, format)| Ok((name, version(&format)?))).collect()
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
