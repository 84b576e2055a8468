//! Codec errors as Python exceptions.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use recipe::error::Error;
use recipe::protocol::Protocol;

pyo3::create_exception!(_native, RequestError, PyValueError, "A request that cannot be served, and why.");

/// The exception for a codec error: `status_code`, `code`, `param` and the protocol's own `body` are attributes.
pub(crate) fn request_error(py: Python<'_>, error: &Error, protocol: Protocol) -> PyErr {
    let exception = RequestError::new_err(error.message().to_owned());
    let value = exception.value(py);
    let param = (!error.path().is_empty()).then(|| error.path());
    let set = || -> PyResult<()> {
        value.setattr("status_code", error.status())?;
        value.setattr("code", error.code())?;
        value.setattr("param", param)?;
        value.setattr("body", PyBytes::new(py, protocol.error_body(error).as_bytes()))
    };
    set().err().unwrap_or(exception)
}

/// A wrong argument of the library's own.
pub(crate) fn argument_error(name: &str, expected: &str, found: &str) -> PyErr {
    PyValueError::new_err(format!("{name} must be {expected}, not {found:?}"))
}

/// The protocol called `name`.
pub(crate) fn protocol(name: &str) -> PyResult<Protocol> {
    Protocol::from_name(name)
        .ok_or_else(|| argument_error("protocol", "\"chat_completions\", \"responses\" or \"messages\"", name))
}

/// The version called `name`.
pub(crate) fn version(name: &str) -> PyResult<recipe::model::Version> {
    recipe::model::Version::from_name(name).ok_or_else(|| argument_error("version", "\"v4\" or \"v4.1\"", name))
}
