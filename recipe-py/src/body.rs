//! Request bodies as Python hands them in: `bytes`, `str`, or a `dict` of JSON values.

use std::cell::Cell;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use recipe::error::Error;
use recipe::json::{self, MAX_DEPTH, Value};

thread_local! {
    /// Where strings with escapes are put together. It is kept, as the system takes its time to find as much memory anew.
    static ROOM: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Most bytes of it that are kept.
const MOST_ROOM: usize = 4 << 20;

/// A body, not yet parsed if it is text. Text is read where Python holds it.
pub(crate) enum Body {
    Bytes(PyBackedBytes),
    Text(PyBackedStr),
    Value(Value<'static>),
}

impl Body {
    /// Takes a body from Python.
    pub(crate) fn extract(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            Ok(Body::Bytes(bytes.clone().into()))
        } else if let Ok(text) = object.cast::<PyString>() {
            Ok(Body::Text(text.clone().try_into()?))
        } else if object.is_instance_of::<PyDict>() {
            convert(object, 0).map(Body::Value)
        } else {
            Err(PyTypeError::new_err(format!("body must be bytes, str or dict, not {}", object.get_type().name()?)))
        }
    }

    /// Takes any JSON value from Python.
    pub(crate) fn convert(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        convert(object, 0).map(Body::Value)
    }

    /// Parses the body if it is text, and hands it to `use_value`.
    pub(crate) fn with_value<T>(&self, use_value: impl FnOnce(&Value<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let text = match self {
            Body::Bytes(bytes) => bytes.as_ref(),
            Body::Text(text) => text.as_bytes(),
            Body::Value(value) => return use_value(value),
        };
        let mut room = ROOM.take();
        let result = json::parse_into(text, &mut room).and_then(|value| use_value(&value));
        if room.capacity() <= MOST_ROOM {
            ROOM.set(room);
        }
        result
    }
}

/// A Python object as a JSON value, with the limits that JSON text has.
fn convert(object: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value<'static>> {
    if depth > MAX_DEPTH {
        return Err(PyValueError::new_err(format!("body is nested deeper than {MAX_DEPTH} levels")));
    }
    if object.is_none() {
        Ok(Value::Null)
    } else if let Ok(value) = object.cast::<PyBool>() {
        Ok(Value::Bool(value.is_true()))
    } else if let Ok(text) = object.cast::<PyString>() {
        Ok(Value::from(text.to_str()?.to_owned()))
    } else if object.is_instance_of::<PyInt>() || object.is_instance_of::<PyFloat>() {
        number(object)
    } else if let Ok(dict) = object.cast::<PyDict>() {
        let member = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            let key = key.cast::<PyString>().map_err(|_| PyTypeError::new_err("keys of the body must be str"))?;
            Ok((key.to_str()?.to_owned(), convert(&value, depth + 1)?))
        };
        Ok(Value::Object(dict.iter().map(member).collect::<PyResult<Vec<_>>>()?.into_iter().collect()))
    } else if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        let items = object.try_iter()?.map(|item| convert(&item?, depth + 1));
        Ok(Value::Array(items.collect::<PyResult<_>>()?))
    } else {
        Err(PyTypeError::new_err(format!("a JSON value cannot be a {}", object.get_type().name()?)))
    }
}

/// A number by its Python spelling, which JSON shares; `nan` and `inf` have none.
fn number(object: &Bound<'_, PyAny>) -> PyResult<Value<'static>> {
    let literal = object.repr()?.to_str()?.to_owned();
    json::parse(literal.as_bytes())
        .map(Value::into_owned)
        .map_err(|_| PyValueError::new_err(format!("{literal} is not a number that JSON can say")))
}
