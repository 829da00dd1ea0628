//! The types an element can have, and their names and codes.

use core::fmt;
use core::str::FromStr;

macro_rules! dtypes {
    ($($variant:ident = $code:literal $name:literal $size:literal,)*) => {
        /// The type of an element.
        ///
        /// Integers are named by their width in bits, floats and complex numbers by their size in bytes, as
        /// the glossary says: `i8` is one byte (not NumPy's eight), `f4` is four.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        #[expect(missing_docs, reason = "the type's documentation explains the names")]
        pub enum Dtype {
            $($variant = $code,)*
        }

        impl Dtype {
            /// Every dtype, by code.
            pub const ALL: [Self; [$($code),*].len()] = [$(Self::$variant),*];

            /// Returns the name, the same everywhere.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the size of one element in bytes.
            #[must_use]
            pub const fn size_bytes(self) -> usize {
                match self { $(Self::$variant => $size,)* }
            }
        }
    };
}

dtypes! {
    I8 = 0 "i8" 1,
    I16 = 1 "i16" 2,
    I32 = 2 "i32" 4,
    I64 = 3 "i64" 8,
    U8 = 4 "u8" 1,
    U16 = 5 "u16" 2,
    U32 = 6 "u32" 4,
    U64 = 7 "u64" 8,
    F4 = 8 "f4" 4,
    F8 = 9 "f8" 8,
    C8 = 10 "c8" 8,
    C16 = 11 "c16" 16,
    Bool = 12 "bool" 1,
}

impl Dtype {
    /// Returns NumPy's name, which counts all widths in bytes; here those of integers are in bits.
    #[must_use]
    pub const fn numpy_name(self) -> &'static str {
        match self {
            Self::I8 => "|i1",
            Self::I16 => "<i2",
            Self::I32 => "<i4",
            Self::I64 => "<i8",
            Self::U8 => "|u1",
            Self::U16 => "<u2",
            Self::U32 => "<u4",
            Self::U64 => "<u8",
            Self::F4 => "<f4",
            Self::F8 => "<f8",
            Self::C8 => "<c8",
            Self::C16 => "<c16",
            Self::Bool => "|b1",
        }
    }

    /// Returns the code on the wire.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the dtype with this code on the wire.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Reads one little-endian element as a float, for plots and expressions.
    ///
    /// A complex number gives its magnitude; a boolean 0 or 1; 64-bit integers beyond 2⁵³ are rounded.
    ///
    /// # Panics
    /// If `bytes` is not exactly one element.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "documented: for plots, not for storage")]
    pub fn to_f64(self, bytes: &[u8]) -> f64 {
        macro_rules! read {
            ($type:ty) => {
                <$type>::from_le_bytes(bytes.try_into().expect("exactly one element"))
            };
        }
        match self {
            Self::I8 => f64::from(read!(i8)),
            Self::I16 => f64::from(read!(i16)),
            Self::I32 => f64::from(read!(i32)),
            Self::I64 => read!(i64) as f64,
            Self::U8 => f64::from(read!(u8)),
            Self::U16 => f64::from(read!(u16)),
            Self::U32 => f64::from(read!(u32)),
            Self::U64 => read!(u64) as f64,
            Self::F4 => f64::from(read!(f32)),
            Self::F8 => read!(f64),
            Self::C8 => {
                let (real, imaginary) = bytes.split_at(4);
                Self::F4.to_f64(real).hypot(Self::F4.to_f64(imaginary))
            }
            Self::C16 => {
                let (real, imaginary) = bytes.split_at(8);
                Self::F8.to_f64(real).hypot(Self::F8.to_f64(imaginary))
            }
            Self::Bool => f64::from(u8::from(read!(u8) != 0)),
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// Error for a text that is not a dtype.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is not a dtype; choose one of i8 i16 i32 i64 u8 u16 u32 u64 f4 f8 c8 c16 bool")]
pub struct UnknownDtype(pub String);

units::serde_as_text!(Dtype);

impl FromStr for Dtype {
    type Err = UnknownDtype;

    fn from_str(name: &str) -> Result<Self, UnknownDtype> {
        let found = Self::ALL.into_iter().find(|dtype| dtype.name() == name);
        found.ok_or_else(|| UnknownDtype(name.to_owned()))
    }
}

/// A Rust type that is an element of a stream.
pub trait Element: zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable + Copy {
    /// Its dtype.
    const DTYPE: Dtype;
}

macro_rules! elements {
    ($($type:ty => $dtype:ident),* $(,)?) => {
        $(impl Element for $type { const DTYPE: Dtype = Dtype::$dtype; })*
    };
}

elements!(
    i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    f32 => F4, f64 => F8, [f32; 2] => C8, [f64; 2] => C16,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_lead_back_to_their_dtype() {
        for (code, dtype) in Dtype::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(dtype.code()), code);
            assert_eq!(Dtype::from_code(dtype.code()), Some(dtype));
            assert_eq!(dtype.name().parse(), Ok(dtype));
        }
        assert_eq!(Dtype::from_code(13), None);
        assert!("float32".parse::<Dtype>().is_err());
    }

    #[test]
    fn elements_read_as_floats() {
        assert_eq!(Dtype::I16.to_f64(&(-7_i16).to_le_bytes()), -7.0);
        assert_eq!(Dtype::C8.to_f64(&[3.0_f32.to_le_bytes(), 4.0_f32.to_le_bytes()].concat()), 5.0);
        assert_eq!(Dtype::Bool.to_f64(&[9]), 1.0);
    }
}
