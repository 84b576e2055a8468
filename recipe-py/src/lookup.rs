//! The caller's own store of responses, as the codec asks it.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyList;
use recipe::error::{Error, ErrorCode};
use recipe::json::Value;

use crate::body::Body;

/// A Python callable from an id to what is stored under it. Keeps what it raised, so that the caller gets it back.
pub(crate) struct Lookup {
    callable: Py<PyAny>,
    fault: Mutex<Option<PyErr>>,
}

impl Lookup {
    pub(crate) fn new(callable: Py<PyAny>) -> Self {
        Self { callable, fault: Mutex::new(None) }
    }

    /// Raises what the callable raised, if it did.
    pub(crate) fn raise(&self) -> PyResult<()> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    fn call(&self, py: Python<'_>, id: &str) -> PyResult<Option<Body>> {
        let found = self.callable.bind(py).call1((id,))?;
        if found.is_none() {
            return Ok(None);
        }
        if found.is_instance_of::<PyList>() { Body::convert(&found) } else { Body::extract(&found) }.map(Some)
    }
}

impl recipe::protocol::Lookup for Lookup {
    fn find(&self, id: &str) -> Result<Option<Value<'static>>, Error> {
        match Python::attach(|py| self.call(py, id)) {
            Ok(None) => Ok(None),
            Ok(Some(body)) => body.with_value(|value| Ok(Some(value.clone().into_owned()))),
            Err(fault) => {
                let error = Error::new(ErrorCode::BackendFailed, "", &[("detail", &fault)]);
                *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = Some(fault);
                Err(error)
            }
        }
    }
}
