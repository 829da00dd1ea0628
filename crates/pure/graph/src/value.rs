//! The elements of computed streams.

use sample::Dtype;

/// Returns the float type that holds an element's value for plots and sums.
pub(crate) const fn value_dtype(dtype: Dtype) -> Dtype {
    match dtype {
        Dtype::I8 | Dtype::I16 | Dtype::U8 | Dtype::U16 | Dtype::Bool | Dtype::F4 | Dtype::C8 => Dtype::F4,
        Dtype::I32 | Dtype::U32 | Dtype::I64 | Dtype::U64 | Dtype::F8 | Dtype::C16 => Dtype::F8,
    }
}

/// Writes a value as `f4` or `f8`, whichever fills `place`.
pub(crate) fn write_value(value: f64, place: &mut [u8]) {
    if place.len() == Dtype::F4.size_bytes() {
        place.copy_from_slice(&(value as f32).to_le_bytes());
    } else {
        place.copy_from_slice(&value.to_le_bytes());
    }
}
