//! `encode` and what it returns.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use recipe::conversation::{Detail, ImageData};
use recipe::decoder::DecoderConfig;
use recipe::error::Error;
use recipe::json::write_compact;
use recipe::protocol::{AnswerConfig, Protocol};
use recipe::{codec, encoded};

use crate::body::Body;
use crate::constraint::{Constraint, Grammar};
use crate::decoder::Decoder;
use crate::errors;
use crate::lookup::Lookup;
use crate::options::Options;
use crate::parsing::Parsing;
use crate::sampling::Sampling;
use crate::token_ids::TokenIds;

/// Turns a request body into token ids.
#[pyfunction]
#[pyo3(signature = (body, protocol, *, options=None, lookup=None))]
pub(crate) fn encode(
    py: Python<'_>,
    body: &Bound<'_, PyAny>,
    protocol: &str,
    options: Option<PyRef<'_, Options>>,
    lookup: Option<Py<PyAny>>,
) -> PyResult<Encoded> {
    let protocol = errors::protocol(protocol)?;
    let body = Body::extract(body)?;
    let options = options.map(|options| options.0.clone()).unwrap_or_default();
    let lookup = lookup.map(Lookup::new);
    let encoded = py.detach(|| {
        let find = lookup.as_ref().map(|lookup| lookup as &dyn recipe::protocol::Lookup);
        body.with_value(|value| codec::encode_continuing(value, protocol, &options, find))
    });
    lookup.as_ref().map_or(Ok(()), Lookup::raise)?;
    encoded.map(Encoded::new).map_err(|error| errors::request_error(py, &error, protocol))
}

/// Turns a conversation, in the codec's own JSON form, into token ids.
#[pyfunction]
#[pyo3(signature = (conversation, *, version, options=None))]
pub(crate) fn encode_conversation(
    py: Python<'_>,
    conversation: &Bound<'_, PyAny>,
    version: &str,
    options: Option<PyRef<'_, Options>>,
) -> PyResult<Encoded> {
    let version = errors::version(version)?;
    let body = Body::extract(conversation)?;
    let options = options.map(|options| options.0.clone()).unwrap_or_default();
    let encoded = py.detach(|| body.with_value(|value| codec::encode_conversation_value(value, version, &options)));
    encoded.map(Encoded::new).map_err(|error| errors::request_error(py, &error, Protocol::ChatCompletions))
}

/// Number of tokens of a request's prompt.
#[pyfunction]
#[pyo3(signature = (body, protocol, *, options=None, lookup=None))]
pub(crate) fn count_tokens(
    py: Python<'_>,
    body: &Bound<'_, PyAny>,
    protocol: &str,
    options: Option<PyRef<'_, Options>>,
    lookup: Option<Py<PyAny>>,
) -> PyResult<usize> {
    Ok(encode(py, body, protocol, options, lookup)?.0.token_ids.len())
}

/// A request in the model's own terms.
#[pyclass(frozen, module = "deepseek_recipe")]
pub(crate) struct Encoded(Arc<encoded::Encoded>, OnceLock<Made>);

/// The grammar, once it was asked for.
type Made = Result<Option<Py<Grammar>>, Error>;

impl Encoded {
    fn new(encoded: encoded::Encoded) -> Self {
        Self(Arc::new(encoded), OnceLock::new())
    }
}

#[pymethods]
impl Encoded {
    #[getter]
    fn token_ids(&self) -> TokenIds {
        TokenIds::of_request(Arc::clone(&self.0))
    }

    #[getter]
    fn prompt(&self) -> &str {
        &self.0.prompt().text
    }

    #[getter]
    fn special_ranges(&self) -> Vec<(usize, usize)> {
        self.0.prompt().special_ranges()
    }

    #[getter]
    fn images(&self) -> Vec<Image> {
        self.0.images().iter().map(Image::new).collect()
    }

    #[getter]
    fn image_token_id(&self) -> Option<u32> {
        self.0.image_token_id()
    }

    #[getter]
    fn protocol(&self) -> Option<&'static str> {
        self.0.protocol.map(Protocol::name)
    }

    #[getter]
    fn model(&self) -> &str {
        &self.0.model
    }

    #[getter]
    fn model_version(&self) -> &'static str {
        self.0.version.name()
    }

    #[getter]
    fn thinking(&self) -> bool {
        self.0.thinking
    }

    #[getter]
    fn thinking_budget(&self) -> Option<u64> {
        self.0.thinking_budget
    }

    #[getter]
    fn stream(&self) -> bool {
        self.0.stream
    }

    #[getter]
    fn include_usage(&self) -> Option<bool> {
        self.0.include_usage
    }

    #[getter]
    fn choices(&self) -> u8 {
        self.0.choices
    }

    #[getter]
    fn sampling(&self) -> Sampling {
        Sampling(self.0.sampling.clone())
    }

    #[getter]
    fn constraint(&self) -> Option<Constraint> {
        let after_thinking = self.0.constrained_after_thinking();
        self.0.constraint.clone().map(|constraint| Constraint { constraint, after_thinking })
    }

    /// The grammar of the answer; made when it is first asked for.
    #[getter]
    fn grammar(&self, py: Python<'_>) -> PyResult<Option<Py<Grammar>>> {
        let made = match self.1.get() {
            Some(made) => made,
            None => {
                let made = py.detach(|| self.0.grammar());
                let made = match made {
                    Ok(grammar) => Ok(grammar.map(|grammar| Py::new(py, Grammar(grammar))).transpose()?),
                    Err(error) => Err(error),
                };
                self.1.get_or_init(|| made)
            }
        };
        let protocol = self.0.protocol.unwrap_or(Protocol::ChatCompletions);
        match made {
            Ok(grammar) => Ok(grammar.as_ref().map(|grammar| grammar.clone_ref(py))),
            Err(error) => Err(errors::request_error(py, error, protocol)),
        }
    }

    #[getter]
    fn parsing(&self) -> Parsing {
        Parsing(self.0.parsing.clone())
    }

    #[getter]
    fn echo(&self) -> Option<String> {
        self.0.echo.as_ref().map(|echo| {
            let mut text = String::new();
            write_compact(echo, &mut text);
            text
        })
    }

    #[getter]
    fn custom_tools(&self) -> Vec<String> {
        self.0.custom_tools.clone()
    }

    #[getter]
    fn namespace_tools(&self) -> BTreeMap<String, (String, String)> {
        let names = self.0.namespace_tools.iter().cloned();
        names.map(|(flat, namespace, name)| (flat, (namespace, name))).collect()
    }

    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings.clone()
    }

    /// The decoder of the answer to this request.
    #[pyo3(signature = (*, id, created, seed, signature=None, model=None))]
    fn decoder(
        &self,
        id: String,
        created: u64,
        seed: Vec<u8>,
        signature: Option<String>,
        model: Option<String>,
    ) -> Decoder {
        let config = self.0.decoder_config(id, created, seed);
        let config = DecoderConfig {
            answer: AnswerConfig { signature, model: model.unwrap_or(config.answer.model), ..config.answer },
            ..config
        };
        Decoder::from_config(config, Some(Arc::clone(&self.0.tokenizer)))
    }

    /// Most tokens to generate in a context of `context_length`.
    #[pyo3(signature = (context_length, prompt_tokens=None))]
    fn resolve_max_tokens(&self, py: Python<'_>, context_length: u32, prompt_tokens: Option<u32>) -> PyResult<u32> {
        let own = u32::try_from(self.0.token_ids.len()).unwrap_or(u32::MAX);
        let resolved = self.0.sampling.resolve_max_tokens(prompt_tokens.unwrap_or(own), context_length);
        let protocol = self.0.protocol.unwrap_or(Protocol::ChatCompletions);
        resolved.map_err(|error| errors::request_error(py, &error, protocol))
    }
}

/// Source of an image of the prompt.
#[pyclass(frozen, module = "deepseek_recipe")]
pub(crate) struct Image {
    /// `url` or `base64`.
    #[pyo3(get)]
    kind: &'static str,
    /// The URL, or the encoded bytes.
    #[pyo3(get)]
    data: String,
    /// Media type of encoded bytes.
    #[pyo3(get)]
    media_type: Option<String>,
    /// `low`, `high`, `original` or `auto`.
    #[pyo3(get)]
    detail: &'static str,
    /// Where the request gave it.
    #[pyo3(get)]
    path: String,
}

impl Image {
    fn new(source: &recipe::conversation::ImageSource<'_>) -> Self {
        let (kind, data, media_type) = match &source.data {
            ImageData::Url(url) => ("url", url, None),
            ImageData::Base64 { media_type, data } => ("base64", data, Some(media_type.clone().into_owned())),
        };
        let detail = match source.detail {
            Detail::Low => "low",
            Detail::High => "high",
            Detail::Original => "original",
            Detail::Auto => "auto",
        };
        Self { kind, data: data.clone().into_owned(), media_type, detail, path: source.path.clone() }
    }
}
