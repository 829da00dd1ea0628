//! Items of an array: one number, or the fields of a structured type, and their conversion to a stream's elements.

use half::f16;
use sample::{Channel, Dtype};

use super::NpyError;
use super::header::{Literal, extents};
use crate::dtypes::{DtypeError, Number, common_dtype};

/// Conversion of an array's items to elements.
pub(super) struct Items {
    /// Size of an item in the file.
    pub(super) bytes: usize,
    fields: Vec<Field>,
    dtype: Dtype,
    is_structured: bool,
}

/// Field of an item that becomes a channel; the only one of an item that is a number.
struct Field {
    name: String,
    offset: usize,
    form: Form,
    shape: Vec<u32>,
}

/// Form of a number in the file.
#[derive(Clone, Copy)]
struct Form {
    /// Type that keeps every bit.
    dtype: Dtype,
    is_half: bool,
    is_big_endian: bool,
}

impl Items {
    /// Reads an array's type; of a structured one, the wanted fields, or all if none is named.
    pub(super) fn new(descr: &Literal, wanted: &[String], asked: Option<Dtype>) -> Result<Self, NpyError> {
        let is_structured = matches!(descr, Literal::Sequence(_));
        let (fields, bytes) = match descr {
            Literal::Text(name) if wanted.is_empty() => {
                let form = Form::of(name).ok_or_else(|| NpyError::Type(name.clone()))?;
                let field = Field { name: String::new(), offset: 0, form, shape: Vec::new() };
                (vec![field], form.bytes())
            }
            Literal::Text(_) => return Err(NpyError::NoFields),
            Literal::Sequence(fields) => fields_of(fields, wanted)?,
            _ => return Err(NpyError::Header("its descr is neither a type nor a list of fields")),
        };
        let columns: Vec<_> = fields.iter().map(|field| (field.name.as_str(), field.form.dtype)).collect();
        let dtype = common_dtype(&columns, asked)?;
        Ok(Self { bytes, fields, dtype, is_structured })
    }

    pub(super) const fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns the number of elements of an item; `None` if no sample may have so many.
    pub(super) fn elements(&self) -> Option<u32> {
        self.fields.iter().try_fold(0_u32, |sum, field| sum.checked_add(field.elements()?))
    }

    /// Returns the fields of a structured type as channels.
    pub(super) fn channels(&self) -> Option<Vec<Channel>> {
        let channel = |field: &Field| Channel::new(&field.name, "").with_shape(field.shape.as_slice());
        self.is_structured.then(|| self.fields.iter().map(channel).collect())
    }

    /// Returns whether the bytes of the file are the elements.
    pub(super) fn are_elements(&self) -> bool {
        let plain = |field: &Field| field.form.is_plain() && field.form.dtype == self.dtype;
        !self.is_structured && self.fields.iter().all(plain)
    }

    /// Appends the elements of rows, each of so many items; `first_row` is for errors.
    pub(super) fn append(
        &self,
        rows: &[u8],
        row_items: usize,
        first_row: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), NpyError> {
        for (at, item) in rows.chunks_exact(self.bytes).enumerate() {
            for field in &self.fields {
                let number = field.append(item, self.dtype, out);
                number.map_err(|number| {
                    let column =
                        if self.is_structured { field.name.clone() } else { format!("ch{}", at % row_items) };
                    DtypeError::Inexact {
                        row: first_row + (at / row_items) as u64,
                        column,
                        number,
                        dtype: self.dtype,
                    }
                })?;
            }
        }
        Ok(())
    }
}

impl Field {
    fn elements(&self) -> Option<u32> {
        self.shape.iter().try_fold(1_u32, |product, extent| product.checked_mul(*extent))
    }

    fn bytes(&self) -> Option<usize> {
        (self.elements()? as usize).checked_mul(self.form.bytes())
    }

    /// Appends the elements of one item; the first number without an exact form is the error.
    fn append(&self, item: &[u8], dtype: Dtype, out: &mut Vec<u8>) -> Result<(), Number> {
        let bytes = &item[self.offset..][..self.bytes().expect("checked when the header was read")];
        for number in bytes.chunks_exact(self.form.bytes()) {
            let begin = out.len();
            self.form.append(number, out);
            if self.form.dtype != dtype {
                let number = Number::of_element(self.form.dtype, &out[begin..]);
                out.truncate(begin);
                if !number.push_as(dtype, out) {
                    return Err(number);
                }
            }
        }
        Ok(())
    }
}

impl Form {
    /// Parses a name such as `<f8`; `None` for what no stream has.
    fn of(name: &str) -> Option<Self> {
        let kind = name.trim_start_matches(['<', '>', '|', '=']);
        let is_half = kind == "f2";
        let dtype = match kind {
            "b1" => Dtype::Bool,
            "f2" => Dtype::F4,
            _ => Dtype::ALL
                .into_iter()
                .find(|dtype| dtype.numpy_name().trim_start_matches(['<', '|']) == kind)?,
        };
        Some(Self { dtype, is_half, is_big_endian: name.starts_with('>') })
    }

    const fn bytes(self) -> usize {
        if self.is_half { 2 } else { self.dtype.size_bytes() }
    }

    const fn is_plain(self) -> bool {
        !self.is_half && !self.is_big_endian
    }

    /// Appends a number as a little-endian element of its dtype; in a complex one each part is reversed by itself.
    fn append(self, bytes: &[u8], out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(bytes);
        if self.is_big_endian {
            let parts = if matches!(self.dtype, Dtype::C8 | Dtype::C16) { 2 } else { 1 };
            out[begin..].chunks_exact_mut(bytes.len() / parts).for_each(<[u8]>::reverse);
        }
        if self.is_half {
            let half = f16::from_le_bytes([out[begin], out[begin + 1]]);
            out.truncate(begin);
            out.extend_from_slice(&half.to_f32().to_le_bytes());
        }
    }
}

/// Returns the wanted fields of a structured type, and the size of its items.
fn fields_of(entries: &[Literal], wanted: &[String]) -> Result<(Vec<Field>, usize), NpyError> {
    let mut fields = Vec::new();
    let (mut names, mut offset) = (Vec::new(), 0_usize);
    for entry in entries {
        let (name, kind, shape) = parts_of(entry)?;
        let form = if let Literal::Text(kind) = kind { Form::of(kind) } else { None };
        let size = match (form, kind) {
            (Some(form), _) => Some(form.bytes()),
            (None, Literal::Text(kind)) => opaque_bytes(kind),
            (None, _) => None,
        };
        let refused = || NpyError::Field { field: name.to_owned(), holds: holds(kind) };
        let numbers = shape.iter().try_fold(1_usize, |product, extent| product.checked_mul(*extent as usize));
        let bytes =
            size.zip(numbers).and_then(|(size, numbers)| size.checked_mul(numbers)).ok_or_else(refused)?;
        let is_wanted = if wanted.is_empty() { !name.is_empty() } else { wanted.iter().any(|it| it == name) };
        if is_wanted {
            let form = form.ok_or_else(refused)?;
            fields.push(Field { name: name.to_owned(), offset, form, shape });
        }
        if !name.is_empty() {
            names.push(name);
        }
        offset = offset.checked_add(bytes).ok_or(NpyError::Header("its items are larger than any file"))?;
    }
    if let Some(unknown) = wanted.iter().find(|wanted| !names.contains(&wanted.as_str())) {
        return Err(NpyError::NoField { asked: unknown.clone(), present: names.join(", ") });
    }
    if fields.is_empty() {
        return Err(NpyError::Header("its structured type has no fields"));
    }
    // In the order of the request.
    fields.sort_by_key(|field| wanted.iter().position(|wanted| *wanted == field.name));
    Ok((fields, offset))
}

/// Returns name, type and shape of a field, whose name may have a title before it.
fn parts_of(entry: &Literal) -> Result<(&str, &Literal, Vec<u32>), NpyError> {
    let damaged = NpyError::Header("a field is not a tuple of name, type and shape");
    let Literal::Sequence(parts) = entry else { return Err(damaged) };
    let (name, kind, shape) = match &parts[..] {
        [name, kind] => (name, kind, Vec::new()),
        [name, kind, Literal::Number(extent)] => (name, kind, vec![*extent]),
        [name, kind, shape] => (name, kind, extents(shape)?),
        _ => return Err(damaged),
    };
    let name = match name {
        Literal::Text(name) => name,
        Literal::Sequence(titled) => match &titled[..] {
            [_, Literal::Text(name)] => name,
            _ => return Err(damaged),
        },
        _ => return Err(damaged),
    };
    let shape: Option<_> = shape.into_iter().map(|extent| u32::try_from(extent).ok()).collect();
    Ok((name, kind, shape.ok_or(damaged)?))
}

/// Returns the size of a type that is no number: padding, text, a time.
fn opaque_bytes(kind: &str) -> Option<usize> {
    let kind = kind.trim_start_matches(['<', '>', '|', '=']);
    let digits = |rest: &str| rest.split('[').next().and_then(|digits| digits.parse::<usize>().ok());
    match kind.split_at_checked(1)? {
        ("U", rest) => digits(rest)?.checked_mul(4),
        ("V" | "S" | "a" | "M" | "m" | "f" | "c", rest) => digits(rest),
        _ => None,
    }
}

fn holds(kind: &Literal) -> String {
    if let Literal::Text(kind) = kind { format!("`{kind}`") } else { "fields of its own".to_owned() }
}
