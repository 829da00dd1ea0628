//! The only `unsafe` of this module: memory of ours as NumPy's, and memory of NumPy's as bytes.
#![expect(unsafe_code, reason = "NumPy's own interface is C")]

use std::ffi::c_int;
use std::sync::Arc;

use numpy::npyffi::{
    _PyArray_GET_ITEM_DATA, NPY_ARRAY_CARRAY, NPY_ARRAY_CARRAY_RO, PY_ARRAY_API, PyArrayObject,
};
use numpy::{PyArrayDescr, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::PyTypeInfo;
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use sample::{Foreign, SampleBuffer};

/// Memory of a block, kept alive by arrays.
#[pyclass(frozen, module = "tallycast._core")]
pub(crate) struct Memory {
    /// Not read from here again: it belongs to the arrays.
    _buffer: SampleBuffer,
}

/// Memory of a ring, kept mapped by views.
#[pyclass(frozen, module = "tallycast._core")]
pub(crate) struct RingMemory {
    _foreign: Arc<dyn Foreign>,
}

/// Makes an array over a block's memory, without a copy.
///
/// # Panics
/// If the memory has another size than the shape requires.
pub(crate) fn array_over<'py>(
    py: Python<'py>,
    mut buffer: SampleBuffer,
    descr: &Bound<'py, PyArrayDescr>,
    element_bytes: usize,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let bytes = buffer.as_bytes_mut();
    assert_eq!(
        bytes.len(),
        element_bytes * shape.iter().product::<usize>(),
        "a block is as large as its shape"
    );
    let data = bytes.as_mut_ptr();
    let owner = Bound::new(py, Memory { _buffer: buffer })?;
    // SAFETY: `data` points to as many bytes as the shape requires, which are on the heap, do not move with `buffer`,
    // and live as long as `owner`. No other code reads or writes them.
    unsafe { array_at(py, data, owner.into_any(), descr, shape, NPY_ARRAY_CARRAY) }
}

/// Makes an array, read-only, over samples that were left in their ring.
pub(crate) fn view_of<'py>(
    py: Python<'py>,
    foreign: Arc<dyn Foreign>,
    descr: &Bound<'py, PyArrayDescr>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let data = foreign.address().cast_mut();
    let owner = Bound::new(py, RingMemory { _foreign: foreign })?;
    // SAFETY: `data` points to as many bytes as the shape requires (a block that is left in its ring is whole
    // samples, by the record's head), which stay mapped while `owner` exists. Their writer may overwrite them: no
    // code here reads them, and Python users who do are told to check `valid()` afterwards. They are read-only to
    // NumPy, as is the mapping.
    unsafe { array_at(py, data, owner.into_any(), descr, shape, NPY_ARRAY_CARRAY_RO) }
}

/// Makes an array over memory owned by `owner`.
///
/// # Safety
/// `data` points to as many bytes as shape and dtype require, aligned to a word, while `owner` exists.
unsafe fn array_at<'py>(
    py: Python<'py>,
    data: *mut u8,
    owner: Bound<'py, PyAny>,
    descr: &Bound<'py, PyArrayDescr>,
    shape: &[usize],
    flags: c_int,
) -> PyResult<Bound<'py, PyAny>> {
    // NumPy does not write to the extents.
    let mut extents: Vec<isize> = shape.iter().map(|extent| extent.cast_signed()).collect();
    let rank = c_int::try_from(extents.len()).expect("a sample has few dimensions");
    // SAFETY: The thread is attached (`py`). The caller guarantees the memory, and no element's alignment exceeds a
    // word; `owner` becomes the array's base. NewFromDescr and SetBaseObject each take over one reference, also when
    // they fail.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            PyUntypedArray::type_object_raw(py),
            descr.clone().into_ptr().cast(),
            rank,
            extents.as_mut_ptr(),
            std::ptr::null_mut(),
            data.cast(),
            flags,
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast::<PyArrayObject>(), owner.into_ptr())
            < 0
        {
            return Err(PyErr::take(py).unwrap_or_else(|| PyMemoryError::new_err("an array without memory")));
        }
        Ok(array)
    }
}

/// Calls `take` with the bytes of an array that is contiguous, row-major.
///
/// The caller keeps the array. If `take` releases the interpreter, another Python thread may write to it meanwhile:
/// then the numbers taken are unspecified, as with NumPy's own functions.
///
/// # Panics
/// If the array is not contiguous.
pub(crate) fn with_bytes<T>(array: &Bound<'_, PyUntypedArray>, take: impl FnOnce(&[u8]) -> T) -> T {
    assert!(array.is_c_contiguous(), "an array is made contiguous before it is handed over");
    let size_bytes = array.len() * array.dtype_bytes();
    if size_bytes == 0 {
        return take(&[]);
    }
    // SAFETY: A contiguous array of elements that are plain numbers has `size_bytes` initialised bytes at `data`, and the
    // reference of the caller keeps them where they are: NumPy does not move an array's memory while others refer to it.
    let bytes = unsafe {
        let data = (*_PyArray_GET_ITEM_DATA(array.as_array_ptr())).data;
        std::slice::from_raw_parts(data.cast::<u8>(), size_bytes)
    };
    take(bytes)
}

/// Size of an array's element.
trait ElementSize {
    fn dtype_bytes(&self) -> usize;
}

impl ElementSize for Bound<'_, PyUntypedArray> {
    fn dtype_bytes(&self) -> usize {
        use numpy::PyArrayDescrMethods;
        self.dtype().itemsize()
    }
}
