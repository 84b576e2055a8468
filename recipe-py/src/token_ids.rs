//! `TokenIds`: the ids of a prompt or a text as a buffer, without a copy.

// The buffer protocol is a C interface; this file is the one place where the binding speaks it.
#![expect(unsafe_code, reason = "the buffer protocol hands out raw pointers")]

use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyIndexError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList, PyTuple};
use recipe::encoded::Encoded;

/// A buffer of ids that Python handed over, read where it lies.
pub(crate) struct IdBuffer(PyBuffer<u32>);

impl IdBuffer {
    /// The buffer of an object that has a contiguous one of uint32.
    pub(crate) fn get(object: &Bound<'_, PyAny>) -> Option<Self> {
        // Lists and tuples have none; to ask them would cost an exception.
        if object.is_exact_instance_of::<PyList>() || object.is_exact_instance_of::<PyTuple>() {
            return None;
        }
        PyBuffer::get(object).ok().filter(|buffer| buffer.is_c_contiguous()).map(Self)
    }

    /// The ids. Another thread may write to them meanwhile; then each is read as it was at some time.
    pub(crate) fn ids(&self) -> impl ExactSizeIterator<Item = u32> + Clone + Send {
        let ids: &[AtomicU32] = match self.0.item_count() {
            0 => &[],
            // SAFETY: the buffer is contiguous, aligned for u32 (PyO3 has checked that), as long as it says, and lives
            // until `self` releases it. `AtomicU32` is as large as u32 and lets others write.
            count => unsafe { std::slice::from_raw_parts(self.0.buf_ptr().cast(), count) },
        };
        ids.iter().map(|id| id.load(Ordering::Relaxed))
    }
}

/// Replaces `ids` by those of a sequence.
pub(crate) fn extract_into(object: &Bound<'_, PyAny>, ids: &mut Vec<u32>) -> PyResult<()> {
    let Ok(list) = object.cast::<PyList>() else {
        *ids = object.extract()?;
        return Ok(());
    };
    ids.clear();
    for id in list {
        ids.push(id.extract()?);
    }
    Ok(())
}

/// Ids of a prompt or text: a read-only buffer of uint32 (`memoryview(ids)`, `numpy.asarray(ids)`), and a sequence.
#[pyclass(frozen, sequence, module = "deepseek_recipe")]
pub(crate) struct TokenIds {
    owner: Owner,
    shape: [ffi::Py_ssize_t; 1],
    strides: [ffi::Py_ssize_t; 1],
}

/// Who holds the ids.
enum Owner {
    Request(Arc<Encoded>),
    Text(Vec<u32>),
}

impl TokenIds {
    const ITEM_SIZE: ffi::Py_ssize_t = size_of::<u32>().cast_signed();

    /// Ids of a request, which are not copied.
    pub(crate) fn of_request(encoded: Arc<Encoded>) -> Self {
        Self::new(Owner::Request(encoded))
    }

    /// Ids of a text.
    pub(crate) fn of_text(ids: Vec<u32>) -> Self {
        Self::new(Owner::Text(ids))
    }

    fn new(owner: Owner) -> Self {
        let mut ids = Self { owner, shape: [0], strides: [Self::ITEM_SIZE] };
        ids.shape = [ids.as_slice().len().cast_signed()];
        ids
    }

    fn as_slice(&self) -> &[u32] {
        match &self.owner {
            Owner::Request(encoded) => &encoded.token_ids,
            Owner::Text(ids) => ids,
        }
    }

    /// Ids from Python: a uint32 buffer, or any sequence of integers.
    pub(crate) fn extract_ids(object: &Bound<'_, PyAny>) -> PyResult<Vec<u32>> {
        match PyBuffer::<u32>::get(object) {
            Ok(buffer) => buffer.to_vec(object.py()),
            Err(_) => object.extract(),
        }
    }
}

#[pymethods]
impl TokenIds {
    fn __len__(&self) -> usize {
        self.as_slice().len()
    }

    fn __getitem__(&self, index: isize) -> PyResult<u32> {
        let ids = self.as_slice();
        let place = if index < 0 { index + ids.len().cast_signed() } else { index };
        let id = usize::try_from(place).ok().and_then(|place| ids.get(place));
        id.copied().ok_or_else(|| PyIndexError::new_err(format!("index {index} of {} ids", ids.len())))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, self.as_slice())?.try_iter()
    }

    /// The ids as a list.
    fn tolist(&self) -> Vec<u32> {
        self.as_slice().to_vec()
    }

    fn __repr__(&self) -> String {
        format!("TokenIds({} ids)", self.as_slice().len())
    }

    /// # Safety
    /// Called by Python with a view to fill, as the buffer protocol says.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill"));
        }
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err("token ids are read-only"));
        }
        let this = slf.get();
        let ids = this.as_slice();
        // SAFETY: `view` is not null and ours to fill. All pointers lead into this object or into the vector that it
        // keeps alive; the view holds a reference to the object (`obj`), the object is frozen and never moves, and the
        // view is read-only, so nothing is written through the const pointers.
        unsafe {
            (*view).buf = ids.as_ptr().cast_mut().cast();
            (*view).len = this.shape[0] * Self::ITEM_SIZE;
            (*view).readonly = 1;
            (*view).itemsize = Self::ITEM_SIZE;
            (*view).format =
                if flags & ffi::PyBUF_FORMAT == ffi::PyBUF_FORMAT { c"I".as_ptr().cast_mut() } else { ptr::null_mut() };
            (*view).ndim = 1;
            (*view).shape = this.shape.as_ptr().cast_mut();
            (*view).strides = this.strides.as_ptr().cast_mut();
            (*view).suboffsets = ptr::null_mut();
            (*view).internal = ptr::null_mut();
            (*view).obj = slf.into_ptr();
        }
        Ok(())
    }
}
