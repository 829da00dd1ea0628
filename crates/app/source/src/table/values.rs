//! Values of one column: the few types in which formats store numbers and times, and elements of any dtype of them.

use sample::Dtype;

use crate::dtypes::Number;

/// Numbers of one column as a format stores them, row by row, `None` where null.
///
/// Narrow integers are in the wide signed ones, unsigned ones of the same size in their bits.
#[derive(PartialEq, Debug)]
pub(super) enum Values {
    Bool(Vec<Option<bool>>),
    Int32(Vec<Option<i32>>),
    Int64(Vec<Option<i64>>),
    Float(Vec<Option<f32>>),
    Double(Vec<Option<f64>>),
    /// Digits of decimals, and times of INT96 in nanoseconds since 1970.
    Wide(Vec<Option<i128>>),
}

/// Evaluates the same expression for every type of values.
macro_rules! with_values {
    ($values:expr, $inner:ident => $do:expr) => {
        match $values {
            Values::Bool($inner) => $do,
            Values::Int32($inner) => $do,
            Values::Int64($inner) => $do,
            Values::Float($inner) => $do,
            Values::Double($inner) => $do,
            Values::Wide($inner) => $do,
        }
    };
}

impl Values {
    pub(super) fn len(&self) -> usize {
        with_values!(self, values => values.len())
    }

    /// Returns the positions of the nulls.
    pub(super) fn nulls(&self) -> Vec<usize> {
        with_values!(self, values => {
            values.iter().enumerate().filter(|(_, value)| value.is_none()).map(|(place, _)| place).collect()
        })
    }

    /// Returns the position of the first value that is not a finite number.
    pub(super) fn not_finite(&self) -> Option<usize> {
        match self {
            Self::Float(values) => values.iter().position(|value| value.is_some_and(|it| !it.is_finite())),
            Self::Double(values) => values.iter().position(|value| value.is_some_and(|it| !it.is_finite())),
            Self::Bool(_) | Self::Int32(_) | Self::Int64(_) | Self::Wide(_) => None,
        }
    }

    /// Returns the unsigned integers of a dtype in wider signed ones; other values as they are.
    pub(super) fn widened(self, dtype: Option<Dtype>) -> Self {
        match (self, dtype) {
            (Self::Int32(values), Some(Dtype::U32)) => {
                Self::Int64(values.into_iter().map(|it| it.map(|it| i64::from(it.cast_unsigned()))).collect())
            }
            (Self::Int64(values), Some(Dtype::U64)) => {
                Self::Wide(values.into_iter().map(|it| it.map(|it| i128::from(it.cast_unsigned()))).collect())
            }
            (values, _) => values,
        }
    }

    /// Returns the values as times, `None` for invalid ones. Units: nanoseconds; a value is a number of units over
    /// `divisor`.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "a time in a float is no better"
    )]
    pub(super) fn times(self, nanos_per_unit: i128, divisor: i128) -> Vec<Option<i128>> {
        let of_float =
            |value: f64| value.is_finite().then(|| (value * nanos_per_unit as f64).round() as i128);
        let of_integer = |value: i128| Some(value.checked_mul(nanos_per_unit)?.div_euclid(divisor));
        match self {
            Self::Int32(values) => values.into_iter().map(|it| of_integer(it?.into())).collect(),
            Self::Int64(values) => values.into_iter().map(|it| of_integer(it?.into())).collect(),
            Self::Wide(values) => values.into_iter().map(|it| of_integer(it?)).collect(),
            Self::Float(values) => values.into_iter().map(|it| of_float(it?.into())).collect(),
            Self::Double(values) => values.into_iter().map(|it| of_float(it?)).collect(),
            Self::Bool(values) => vec![None; values.len()],
        }
    }

    /// Returns the values as sample indices, `None` for invalid ones.
    pub(super) fn indices(&self) -> Vec<Option<u64>> {
        match self {
            Self::Int32(values) => values.iter().map(|it| u64::try_from((*it)?).ok()).collect(),
            Self::Int64(values) => values.iter().map(|it| u64::try_from((*it)?).ok()).collect(),
            Self::Wide(values) => values.iter().map(|it| u64::try_from((*it)?).ok()).collect(),
            Self::Bool(_) | Self::Float(_) | Self::Double(_) => vec![None; self.len()],
        }
    }

    /// Appends the values as elements: unchanged if the types agree, else as floats. `Err` of the position of a number
    /// that has no exact form in the target, and of the number.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "narrow and unsigned integers are stored in the wide signed ones' bits"
    )]
    pub(super) fn append(
        &self,
        actual: Dtype,
        target: Dtype,
        out: &mut Vec<u8>,
    ) -> Result<(), (usize, Number)> {
        if actual != target {
            return self.append_as_float(actual, target, out);
        }
        match (self, actual) {
            (Self::Bool(values), _) => each(values, |it| push(out, [u8::from(it.unwrap_or(false))])),
            (Self::Int32(values), Dtype::I8 | Dtype::U8) => {
                each(values, |it| push(out, [it.unwrap_or(0) as u8]))
            }
            (Self::Int32(values), Dtype::I16 | Dtype::U16) => {
                each(values, |it| push(out, (it.unwrap_or(0) as u16).to_le_bytes()))
            }
            (Self::Int32(values), _) => each(values, |it| push(out, it.unwrap_or(0).to_le_bytes())),
            (Self::Int64(values), _) => each(values, |it| push(out, it.unwrap_or(0).to_le_bytes())),
            (Self::Float(values), _) => each(values, |it| push(out, it.unwrap_or(f32::NAN).to_le_bytes())),
            (Self::Double(values), _) => each(values, |it| push(out, it.unwrap_or(f64::NAN).to_le_bytes())),
            (Self::Wide(values), _) => each(values, |it| {
                let wide = it.unwrap_or(0);
                let narrow = i64::try_from(wide).map_err(|_| Number::Integer(wide))?;
                push(out, narrow.to_le_bytes())
            }),
        }
    }

    #[expect(clippy::cast_sign_loss, reason = "unsigned integers are stored in the signed ones' bits")]
    fn append_as_float(
        &self,
        actual: Dtype,
        target: Dtype,
        out: &mut Vec<u8>,
    ) -> Result<(), (usize, Number)> {
        let mut push = |number: Option<Number>| {
            let number = number.unwrap_or(Number::Float(f64::NAN));
            if number.push_as(target, out) { Ok(()) } else { Err(number) }
        };
        let integer = |value: i128| Number::Integer(value);
        match (self, actual) {
            (Self::Bool(values), _) => each(values, |it| push(it.map(|it| integer(it.into())))),
            (Self::Int32(values), Dtype::U32) => {
                each(values, |it| push(it.map(|it| integer((it as u32).into()))))
            }
            (Self::Int32(values), _) => each(values, |it| push(it.map(|it| integer(it.into())))),
            (Self::Int64(values), Dtype::U64) => {
                each(values, |it| push(it.map(|it| integer((it as u64).into()))))
            }
            (Self::Int64(values), _) => each(values, |it| push(it.map(|it| integer(it.into())))),
            (Self::Float(values), _) => each(values, |it| push(it.map(|it| Number::Float(it.into())))),
            (Self::Double(values), _) => each(values, |it| push(it.map(Number::Float))),
            (Self::Wide(values), _) => each(values, |it| push(it.map(integer))),
        }
    }
}

/// Passes on every value; `Err` of the position of the first that has no element, and of the number.
fn each<T: Copy>(
    values: &[Option<T>],
    mut push: impl FnMut(Option<T>) -> Result<(), Number>,
) -> Result<(), (usize, Number)> {
    values.iter().enumerate().try_for_each(|(place, value)| push(*value).map_err(|number| (place, number)))
}

#[expect(clippy::unnecessary_wraps, reason = "one of the ways to append a value, of which others fail")]
fn push<const N: usize>(out: &mut Vec<u8>, element: [u8; N]) -> Result<(), Number> {
    out.extend_from_slice(&element);
    Ok(())
}
