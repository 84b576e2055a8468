//! `Decoder`: ids or text in, bytes of a protocol out.

use std::collections::BTreeMap;
use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use recipe::decoder::{self, DecoderConfig};
use recipe::error::Error;
use recipe::event::{BackendFinish, TokenLogprob};
use recipe::json;
use recipe::model::Version;
use recipe::protocol::{AnswerConfig, Protocol};

use crate::errors::{self, argument_error};
use crate::events::{self, Event};
use crate::options;
use crate::parsing::Parsing;
use crate::token_ids::{IdBuffer, extract_into};
use crate::tokenizer::Tokenizer;

/// A token's log probability and its alternatives: `(logprob, [(id, logprob), …])`.
type Logprob = (f64, Vec<(u32, f64)>);

/// Decodes one answer: every call returns the bytes that are ready to be sent.
#[pyclass(module = "deepseek_recipe")]
pub(crate) struct Decoder {
    inner: decoder::Decoder,
    protocol: Protocol,
    /// Bytes of the latest push; kept for their memory.
    out: String,
    /// Ids of the latest push that were no buffer; kept for their memory.
    ids: Vec<u32>,
}

/// Pushes of fewer ids keep the interpreter's lock. They last less than 15 µs (`benchmarks/decode.py`), while a thread that
/// lets go of the lock may wait for it through the whole turn of another, 5 ms.
const RELEASE: usize = 256;

impl Decoder {
    pub(crate) fn from_config(config: DecoderConfig, tokenizer: Option<Arc<recipe::tokenizer::Tokenizer>>) -> Self {
        let protocol = config.answer.protocol;
        Self { inner: decoder::Decoder::new(config, tokenizer), protocol, out: String::new(), ids: Vec::new() }
    }
}

#[pymethods]
impl Decoder {
    #[new]
    #[pyo3(signature = (protocol, parsing, *, id, model, created, seed, thinking=true, tools=None,
        custom_tools=Vec::new(), namespace_tools=BTreeMap::new(), echo=None, include_usage=true, choices=1,
        top_logprobs=None, signature=None, tokenizer=None, special_tokens=None,
        history_key=None))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python constructor")]
    fn new(
        py: Python<'_>,
        protocol: &str,
        parsing: &Bound<'_, Parsing>,
        id: String,
        model: String,
        created: u64,
        seed: Vec<u8>,
        thinking: bool,
        tools: Option<Vec<String>>,
        custom_tools: Vec<String>,
        namespace_tools: BTreeMap<String, (String, String)>,
        echo: Option<&str>,
        include_usage: bool,
        choices: usize,
        top_logprobs: Option<u8>,
        signature: Option<String>,
        tokenizer: Option<&Bound<'_, PyAny>>,
        special_tokens: Option<BTreeMap<String, String>>,
        history_key: Option<Vec<u8>>,
    ) -> PyResult<Self> {
        let protocol = errors::protocol(protocol)?;
        let mut parsing = parsing.get().0.clone();
        parsing.declared_tools = tools.or(parsing.declared_tools);
        parsing.top_logprobs = top_logprobs.or(parsing.top_logprobs);
        let echo = match echo {
            None => None,
            Some(text) => {
                let value = json::parse(text.as_bytes())
                    .map_err(|error| argument_error("echo", "JSON text", &error.to_string()))?;
                Some(value.into_owned())
            }
        };
        let (version, tokenizer) = tokenizer_of(py, tokenizer)?;
        let mut spellings = version.spellings();
        for (key, spelling) in special_tokens.into_iter().flatten() {
            spellings = spellings.with(options::special(&key)?, spelling);
        }
        let answer = AnswerConfig {
            created,
            seed,
            thinking,
            custom_tools,
            namespace_tools,
            echo,
            include_usage,
            choices,
            signature,
            seal: options::history_key(history_key)?.map(|key| key.seal(version, &tokenizer)),
            ..AnswerConfig::new(protocol, id, model)
        };
        let config = DecoderConfig { parsing, answer, spellings };
        Ok(Self::from_config(config, Some(tokenizer)))
    }

    /// Starts the answer, once the backend knows the prompt's cost.
    #[pyo3(signature = (*, prompt_tokens=0, cached_tokens=0, fingerprint=None))]
    fn start<'py>(
        &mut self,
        py: Python<'py>,
        prompt_tokens: u64,
        cached_tokens: u64,
        fingerprint: Option<&str>,
    ) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.start(prompt_tokens, cached_tokens, fingerprint))
    }

    /// Sets how many of the prompt's tokens were found in a cache, where that is known only after the start.
    fn set_cached_tokens(&mut self, cached_tokens: u64) {
        self.inner.set_cached_tokens(cached_tokens);
    }

    /// Sets the time that closing events report, in seconds since 1970.
    fn set_time(&mut self, seconds: u64) {
        self.inner.set_time(seconds);
    }

    /// Takes tokens of a choice, with one log probability for each if there are any.
    #[pyo3(signature = (token_ids, logprobs=None, choice=0))]
    fn push<'py>(
        &mut self,
        py: Python<'py>,
        token_ids: &Bound<'py, PyAny>,
        logprobs: Option<Vec<Logprob>>,
        choice: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        match IdBuffer::get(token_ids) {
            Some(buffer) => self.push_ids(py, buffer.ids(), logprobs, choice),
            None => {
                let mut ids = std::mem::take(&mut self.ids);
                extract_into(token_ids, &mut ids)?;
                let bytes = self.push_ids(py, ids.iter().copied(), logprobs, choice);
                self.ids = ids;
                bytes
            }
        }
    }

    /// Takes text of a choice that stands for `token_count` tokens.
    #[pyo3(signature = (text, token_count=None, choice=0))]
    fn push_text<'py>(
        &mut self,
        py: Python<'py>,
        text: &str,
        token_count: Option<u64>,
        choice: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.inner.push_text(text, token_count.unwrap_or(0), choice));
        self.bytes(py, bytes)
    }

    /// Ends a choice: `stop`, `length`, `content_filter`, or None where the backend ended without a word.
    #[pyo3(signature = (reason, choice=0))]
    fn finish<'py>(&mut self, py: Python<'py>, reason: Option<&str>, choice: usize) -> PyResult<Bound<'py, PyBytes>> {
        let reason = match reason {
            Some("stop") => BackendFinish::Stop,
            Some("length") => BackendFinish::Length,
            Some("content_filter") => BackendFinish::ContentFilter,
            None => BackendFinish::Unknown,
            Some(other) => {
                return Err(argument_error("reason", "\"stop\", \"length\", \"content_filter\" or None", other));
            }
        };
        let bytes = py.detach(|| self.inner.finish(reason, choice));
        self.bytes(py, bytes)
    }

    /// Ends the answer with an error: a message, or an exception with `code`, `status_code` and `param`.
    fn fail<'py>(&mut self, py: Python<'py>, error: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.inner.fail(&failure(error)?)))
    }

    /// Bytes that only keep the connection alive.
    fn keep_alive<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.keep_alive())
    }

    /// The body of the response that is not streamed.
    fn response<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.inner.response())
    }

    /// Typed events of the latest `push`, `push_text` or `finish`.
    fn events(&self) -> Vec<Event> {
        self.inner.events().iter().map(events::convert).collect()
    }

    /// The stop sequence that ended the first choice, if one did.
    #[getter]
    fn stop_sequence(&self) -> Option<&str> {
        self.inner.stop_sequence(0)
    }

    /// Whether a choice has ended.
    #[pyo3(signature = (choice=0))]
    fn is_finished(&self, choice: usize) -> bool {
        self.inner.is_finished(choice)
    }

    /// Tokens of the prompt, of these from the cache, and of all answers so far.
    #[getter]
    fn usage(&self) -> (u64, u64, u64) {
        let usage = self.inner.usage();
        (usage.prompt, usage.cached, usage.output)
    }
}

impl Decoder {
    fn push_ids<'py>(
        &mut self,
        py: Python<'py>,
        ids: impl ExactSizeIterator<Item = u32> + Clone + Send,
        logprobs: Option<Vec<Logprob>>,
        choice: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let entry = |(id, (logprob, top)): (u32, Logprob)| TokenLogprob { id, logprob, top };
        let logprobs = match logprobs {
            Some(logprobs) if logprobs.len() == ids.len() => Some(ids.clone().zip(logprobs).map(entry).collect()),
            Some(logprobs) => {
                let found = format!("{} for {} tokens", logprobs.len(), ids.len());
                return Err(argument_error("logprobs", "one entry for each token", &found));
            }
            None => None,
        };
        let Self { inner: decoder, protocol, out, .. } = self;
        out.clear();
        let pushed = if ids.len() < RELEASE {
            decoder.push_to(ids, logprobs, choice, out)
        } else {
            py.detach(|| decoder.push_to(ids, logprobs, choice, out))
        };
        match pushed {
            Ok(()) => Ok(PyBytes::new(py, out.as_bytes())),
            Err(error) => Err(errors::request_error(py, &error, *protocol)),
        }
    }

    fn bytes<'py>(&self, py: Python<'py>, bytes: Result<Vec<u8>, Error>) -> PyResult<Bound<'py, PyBytes>> {
        match bytes {
            Ok(bytes) => Ok(PyBytes::new(py, &bytes)),
            Err(error) => Err(errors::request_error(py, &error, self.protocol)),
        }
    }
}

/// The version and tokenizer of a decoder: V4.1's unless a name or a tokenizer is given.
fn tokenizer_of(
    py: Python<'_>,
    given: Option<&Bound<'_, PyAny>>,
) -> PyResult<(Version, Arc<recipe::tokenizer::Tokenizer>)> {
    match given {
        None => Ok((Version::V41, py.detach(|| Version::V41.tokenizer()))),
        Some(given) => match given.cast::<Tokenizer>() {
            Ok(tokenizer) => Ok((Version::V41, Arc::clone(&tokenizer.get().0))),
            Err(_) => {
                let version = errors::version(&given.extract::<String>()?)?;
                Ok((version, py.detach(|| version.tokenizer())))
            }
        },
    }
}

fn failure(error: &Bound<'_, PyAny>) -> PyResult<Error> {
    if let Ok(message) = error.cast::<PyString>() {
        return Ok(Error::foreign("backend_failed", 500, "", message.to_str()?));
    }
    if !error.is_instance_of::<pyo3::exceptions::PyException>() {
        return Err(PyTypeError::new_err("error must be a str or an exception"));
    }
    let code = error.getattr("code").and_then(|code| code.extract()).unwrap_or_else(|_| "backend_failed".to_owned());
    let status = error.getattr("status_code").and_then(|status| status.extract()).unwrap_or(500);
    let param = error.getattr("param").and_then(|param| param.extract::<String>()).unwrap_or_default();
    Ok(Error::foreign(code, status, param, error.str()?.to_str()?))
}

/// The protocol's own envelope of an error that a server around the codec found.
#[pyfunction]
#[pyo3(signature = (protocol, *, status, code, message, param=None))]
pub(crate) fn error_body<'py>(
    py: Python<'py>,
    protocol: &str,
    status: u16,
    code: &str,
    message: &str,
    param: Option<&str>,
) -> PyResult<Bound<'py, PyBytes>> {
    let error = Error::foreign(code, status, param.unwrap_or_default(), message);
    Ok(PyBytes::new(py, errors::protocol(protocol)?.error_body(&error).as_bytes()))
}
