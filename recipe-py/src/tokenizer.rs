//! `Tokenizer`: text ↔ ids.

use std::sync::Arc;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PySlice, PyString};
use recipe::special::Special;

use crate::errors::version;
use crate::token_ids::TokenIds;

/// Characters of a long text that are made UTF-8 at once.
const PIECE: usize = 1 << 13;
/// Characters after which other Python threads may run while those are encoded.
const GROUP: usize = 1 << 16;

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
    fn encode(&self, text: &Bound<'_, PyString>, special: bool, threads: usize) -> PyResult<Vec<u32>> {
        self.ids(text, special, threads)
    }

    /// The same as a buffer, without an object for each id.
    #[pyo3(signature = (text, *, special=false, threads=1))]
    fn encode_to_buffer(&self, text: &Bound<'_, PyString>, special: bool, threads: usize) -> PyResult<TokenIds> {
        self.ids(text, special, threads).map(TokenIds::of_text)
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
    fn ids(&self, text: &Bound<'_, PyString>, special: bool, threads: usize) -> PyResult<Vec<u32>> {
        if !special && is_kept_otherwise(text)? {
            return self.ids_of_pieces(text, threads).or_else(|error| text.to_str().map_or_else(Err, |_| Err(error)));
        }
        let (py, text) = (text.py(), text.to_str()?);
        let tokenizer = self.0.with_threads(threads);
        let mut ids = Vec::new();
        py.detach(|| {
            if special {
                tokenizer.encode_with_special(text, &mut ids);
            } else {
                tokenizer.encode_plain(text, &mut ids);
            }
        });
        Ok(ids)
    }

    /// Ids of a long text. A str that is not ASCII is UTF-8 only once it was copied, and keeps that copy as long as it lives;
    /// pieces are so small that their memory is at hand.
    fn ids_of_pieces(&self, text: &Bound<'_, PyString>, threads: usize) -> PyResult<Vec<u32>> {
        let (py, length) = (text.py(), text.len()?);
        let (mut ids, mut start) = (Vec::with_capacity(length / 3), 0);
        let text = text.clone().unbind();
        let mut give_group = |py: Python<'_>, take: &mut dyn FnMut(&str)| {
            let group_end = length.min(start + GROUP);
            while start < group_end {
                let end = group_end.min(start + PIECE);
                let piece = text.bind(py).get_item(PySlice::new(py, start.cast_signed(), end.cast_signed(), 1))?;
                take(piece.cast::<PyString>()?.to_str()?);
                start = end;
            }
            Ok(start < length)
        };
        let give = |take: &mut dyn FnMut(&str)| {
            let given = Python::try_attach(|py| give_group(py, take));
            given.unwrap_or_else(|| Err(PyRuntimeError::new_err("the interpreter has ended")))
        };
        py.detach(|| self.0.with_threads(threads).encode_pieces(give, &mut ids))?;
        Ok(ids)
    }

    fn bytes(&self, py: Python<'_>, ids: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
        let ids = TokenIds::extract_ids(ids)?;
        py.detach(|| self.0.decode(&ids)).map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

/// Whether Python holds a long text in another form than UTF-8.
fn is_kept_otherwise(text: &Bound<'_, PyString>) -> PyResult<bool> {
    let is_long = text.is_exact_instance_of::<PyString>() && text.len()? > GROUP;
    Ok(is_long && !text.call_method0("isascii")?.is_truthy()?)
}

/// Id of the token that ends a turn of the model.
#[pyfunction]
pub(crate) fn eos_token_id(py: Python<'_>, name: &str) -> PyResult<u32> {
    let version = version(name)?;
    let tokenizer = py.detach(|| version.tokenizer());
    let missing = || PyValueError::new_err("the tokenizer has no end-of-sentence token");
    tokenizer.special_id(version.spellings().of(Special::Eos)).ok_or_else(missing)
}
