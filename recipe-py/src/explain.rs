//! `explain`, `diff` and `diff_sequence`, and what they return.

use std::sync::Arc;

use pyo3::prelude::*;
use recipe::codec::Options as Settings;
use recipe::explain as codec;

use crate::body::Body;
use crate::errors;
use crate::lookup::Lookup;
use crate::options::Options;

/// Tells which field each token of a request's prompt comes from.
#[pyfunction]
#[pyo3(signature = (body, protocol, *, options=None, lookup=None))]
pub(crate) fn explain(
    py: Python<'_>,
    body: &Bound<'_, PyAny>,
    protocol: &str,
    options: Option<PyRef<'_, Options>>,
    lookup: Option<Py<PyAny>>,
) -> PyResult<Vec<Span>> {
    let explanation = explanation(py, body, protocol, &settings(options), lookup.map(Lookup::new).as_ref())?;
    let span = |span: &codec::Span| Span {
        start: span.tokens.start,
        end: span.tokens.end,
        path: span.path.clone(),
        text: explanation.text(span.tokens.clone()).to_owned(),
    };
    Ok(explanation.spans.iter().map(span).collect())
}

/// Tells where the prompts of two requests part.
#[pyfunction]
#[pyo3(signature = (first, second, protocol, *, options=None, lookup=None))]
pub(crate) fn diff(
    py: Python<'_>,
    first: &Bound<'_, PyAny>,
    second: &Bound<'_, PyAny>,
    protocol: &str,
    options: Option<PyRef<'_, Options>>,
    lookup: Option<Py<PyAny>>,
) -> PyResult<Difference> {
    let (options, lookup) = (settings(options), lookup.map(Lookup::new));
    let first = explanation(py, first, protocol, &options, lookup.as_ref())?;
    let second = explanation(py, second, protocol, &options, lookup.as_ref())?;
    Ok(Difference(py.detach(|| codec::difference(&first, &second))))
}

/// Tells how much of each request of a sequence the earlier ones had in common with it.
#[pyfunction]
#[pyo3(signature = (requests, protocol, *, options=None, lookup=None))]
pub(crate) fn diff_sequence(
    py: Python<'_>,
    requests: Vec<Bound<'_, PyAny>>,
    protocol: &str,
    options: Option<PyRef<'_, Options>>,
    lookup: Option<Py<PyAny>>,
) -> PyResult<Vec<Turn>> {
    let (options, lookup) = (settings(options), lookup.map(Lookup::new));
    let explain = |(index, body): (usize, Bound<'_, PyAny>)| {
        explanation(py, &body, protocol, &options, lookup.as_ref()).map_err(|error| {
            let noted = error.value(py).call_method1("add_note", (format!("in requests[{index}]"),));
            noted.err().unwrap_or(error)
        })
    };
    let explained = requests.into_iter().enumerate().map(explain).collect::<PyResult<Vec<_>>>()?;
    Ok(py.detach(|| codec::turns(&explained)).into_iter().map(Turn).collect())
}

fn settings(options: Option<PyRef<'_, Options>>) -> Arc<Settings> {
    options.map(|options| options.0.clone()).unwrap_or_default()
}

fn explanation(
    py: Python<'_>,
    body: &Bound<'_, PyAny>,
    protocol: &str,
    options: &Settings,
    lookup: Option<&Lookup>,
) -> PyResult<codec::Explanation> {
    let protocol = errors::protocol(protocol)?;
    let body = Body::extract(body)?;
    let explained = py.detach(|| {
        let find = lookup.map(|lookup| lookup as &dyn recipe::protocol::Lookup);
        body.with_value(|value| codec::explain_continuing(value, protocol, options, find))
    });
    lookup.map_or(Ok(()), Lookup::raise)?;
    explained.map_err(|error| errors::request_error(py, &error, protocol))
}

/// Tokens in a row that come from one field of a request.
#[pyclass(frozen, get_all, module = "deepseek_recipe")]
pub(crate) struct Span {
    start: usize,
    end: usize,
    path: Option<String>,
    text: String,
}

#[pymethods]
impl Span {
    fn __repr__(&self) -> String {
        let path = self.path.as_deref().unwrap_or("None");
        format!("Span({}:{}, {path}, {:?})", self.start, self.end, self.text)
    }
}

/// Where the prompts of two requests part.
#[pyclass(frozen, module = "deepseek_recipe")]
pub(crate) struct Difference(codec::Difference);

#[pymethods]
impl Difference {
    #[getter]
    fn shared(&self) -> usize {
        self.0.shared
    }

    #[getter]
    fn first_tokens(&self) -> usize {
        self.0.first_tokens
    }

    #[getter]
    fn second_tokens(&self) -> usize {
        self.0.second_tokens
    }

    #[getter]
    fn first_share(&self) -> f64 {
        share(self.0.shared, self.0.first_tokens)
    }

    #[getter]
    fn second_share(&self) -> f64 {
        share(self.0.shared, self.0.second_tokens)
    }

    #[getter]
    fn first(&self) -> Option<Part> {
        self.0.first.clone().map(Part)
    }

    #[getter]
    fn second(&self) -> Option<Part> {
        self.0.second.clone().map(Part)
    }

    #[getter]
    fn path(&self) -> Option<&str> {
        self.0.path()
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    fn __repr__(&self) -> String {
        format!("Difference(shared={}, {})", self.0.shared, self.0)
    }
}

/// The first token of a prompt that differs from another's.
#[pyclass(frozen, module = "deepseek_recipe")]
pub(crate) struct Part(codec::Part);

#[pymethods]
impl Part {
    #[getter]
    fn token_id(&self) -> u32 {
        self.0.token_id
    }

    #[getter]
    fn path(&self) -> Option<&str> {
        self.0.path.as_deref()
    }

    #[getter]
    fn text(&self) -> &str {
        &self.0.text
    }

    fn __repr__(&self) -> String {
        format!("Part({}, {})", self.0.token_id, self.0)
    }
}

/// One request of a sequence, against those before it.
#[pyclass(frozen, module = "deepseek_recipe")]
pub(crate) struct Turn(codec::Turn);

#[pymethods]
impl Turn {
    #[getter]
    fn tokens(&self) -> usize {
        self.0.tokens
    }

    #[getter]
    fn shared(&self) -> usize {
        self.0.shared()
    }

    #[getter]
    fn share(&self) -> f64 {
        share(self.0.shared(), self.0.tokens)
    }

    #[getter]
    fn earlier(&self) -> Option<usize> {
        self.0.earlier
    }

    #[getter]
    fn difference(&self) -> Option<Difference> {
        self.0.difference.clone().map(Difference)
    }

    fn __repr__(&self) -> String {
        format!("Turn(tokens={}, shared={}, earlier={:?})", self.0.tokens, self.0.shared(), self.0.earlier)
    }
}

/// A part of a whole, from 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "prompts have far fewer than 2^52 tokens")]
fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
