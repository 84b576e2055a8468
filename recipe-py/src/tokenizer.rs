//! `Tokenizer`: text ↔ ids.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use recipe::special::Special;

use crate::errors::version;
use crate::token_ids::TokenIds;

/// Text ↔ ids, exactly as the model's own tokenizer.
#[pyclass(frozen, module = "deepseek_recipe")]
pub(crate) struct Tokenizer(pub(crate) Arc<recipe::tokenizer::Tokenizer>);

#[pymethods]
impl Tokenizer {
    /// Reads the text of a `tokenizer.json`.
    #[new]
    fn new(py: Python<'_>, tokenizer_json: &[u8]) -> PyResult<Self> {
        let tokenizer = py.detach(|| recipe::tokenizer::Tokenizer::from_json(tokenizer_json));
        tokenizer.map(|tokenizer| Self(Arc::new(tokenizer))).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// The embedded tokenizer of a version.
    #[staticmethod]
    fn built_in(py: Python<'_>, name: &str) -> PyResult<Self> {
        let version = version(name)?;
        Ok(Self(py.detach(|| version.tokenizer())))
    }

    /// Ids of `text`; with `special`, spelled control tokens become control ids. Long texts use up to `threads` threads.
    #[pyo3(signature = (text, *, special=false, threads=1))]
    fn encode(&self, py: Python<'_>, text: &str, special: bool, threads: usize) -> Vec<u32> {
        py.detach(|| self.ids(text, special, threads))
    }

    /// The same as a buffer, without an object for each id.
    #[pyo3(signature = (text, *, special=false, threads=1))]
    fn encode_to_buffer(&self, py: Python<'_>, text: &str, special: bool, threads: usize) -> TokenIds {
        TokenIds::of_text(py.detach(|| self.ids(text, special, threads)))
    }

    /// Text of `ids`; bytes that are not UTF-8 become U+FFFD.
    fn decode(&self, py: Python<'_>, ids: &Bound<'_, PyAny>) -> PyResult<String> {
        Ok(String::from_utf8_lossy(&self.bytes(py, ids)?).into_owned())
    }

    /// Bytes of `ids`.
    fn decode_bytes<'py>(&self, py: Python<'py>, ids: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.bytes(py, ids)?))
    }

    /// Id of the control token spelled so, or None.
    fn special_id(&self, spelling: &str) -> Option<u32> {
        self.0.special_id(spelling)
    }

    #[getter]
    fn vocabulary_size(&self) -> usize {
        self.0.vocabulary_size()
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

impl Tokenizer {
    fn ids(&self, text: &str, special: bool, threads: usize) -> Vec<u32> {
        let tokenizer = self.0.with_threads(threads);
        let mut ids = Vec::with_capacity(text.len() / 3);
        if special {
            tokenizer.encode_with_special(text, &mut ids);
        } else {
            tokenizer.encode_plain(text, &mut ids);
        }
        ids
    }

    fn bytes(&self, py: Python<'_>, ids: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
        let ids = TokenIds::extract_ids(ids)?;
        py.detach(|| self.0.decode(&ids)).map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

/// Id of the token that ends a turn of the model.
#[pyfunction]
pub(crate) fn eos_token_id(py: Python<'_>, name: &str) -> PyResult<u32> {
    let version = version(name)?;
    let tokenizer = py.detach(|| version.tokenizer());
    let missing = || PyValueError::new_err("the tokenizer has no end-of-sentence token");
    tokenizer.special_id(version.spellings().of(Special::Eos)).ok_or_else(missing)
}
