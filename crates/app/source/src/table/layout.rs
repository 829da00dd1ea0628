//! Layout of a table: names and types of columns, and the order of a sample's elements in them.
//!
//! Lists are arrays or complex numbers. The description of an archive's table tells which; in another table they are
//! arrays, all of the length of the first.

use sample::{Channel, Dtype, Schema};

use super::TableError;
use super::meaning::Meaning;
use crate::columns::{channel_name, is_leading};
use crate::numbers::heading;

/// Column of a file that has values, within lists or not.
pub(super) struct Leaf {
    /// Name of the column: for a list that of the list, not of its content.
    pub(super) name: String,
    pub(super) meaning: Meaning,
    /// Number of lists around a value.
    pub(super) lists: i16,
    /// True if there are groups around it, or several columns in one list.
    pub(super) is_grouped: bool,
}

/// Column that becomes a channel.
pub(super) struct Column {
    /// Number of the leaf column in the file.
    pub(super) leaf: usize,
    pub(super) name: String,
    /// Type of its elements.
    pub(super) dtype: Dtype,
    pub(super) channel: Channel,
    pub(super) nesting: Nesting,
}

/// Structure of a row's elements in a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Nesting {
    /// Number of elements in one row; 0 in a list that is not described until its first row is read.
    pub(super) elements: usize,
    /// Number of numbers in one element: two if it is complex.
    pub(super) parts: usize,
    /// Number of lists around a number.
    pub(super) lists: i16,
}

impl Leaf {
    /// Returns whether a row has one value.
    pub(super) const fn is_flat(&self) -> bool {
        self.lists == 0 && !self.is_grouped
    }

    /// Returns the heading by which the column is chosen: in an archive's table its name unchanged.
    pub(super) fn heading(&self, at: usize, described: Option<&Schema>) -> Channel {
        if described.is_some() { Channel::new(self.name.as_str(), "") } else { heading(&self.name, at) }
    }

    /// Rejects lists and nested groups.
    pub(super) fn check_flat(&self) -> Result<(), TableError> {
        if self.is_flat() { Ok(()) } else { Err(self.not_numbers("lists or nested groups".to_owned())) }
    }

    /// Rejects anything but plain numbers.
    pub(super) fn check_numbers(&self) -> Result<(), TableError> {
        match &self.meaning {
            Meaning::Numbers { .. } => Ok(()),
            Meaning::Times { .. } => Err(self.not_numbers("times".to_owned())),
            Meaning::Other(holds) => Err(self.not_numbers(holds.clone())),
        }
    }

    fn not_numbers(&self, holds: String) -> TableError {
        TableError::NotNumbers { column: self.name.clone(), holds }
    }

    /// Returns the channel of the column by the description, and the structure of its elements; `None` if it has none,
    /// or no longer matches.
    fn as_described<'a>(&self, schema: &'a Schema) -> Option<(&'a Channel, Nesting)> {
        let is_it = |channel: &&Channel| channel.name == channel_name(&self.name) && !is_leading(&self.name);
        let channel = schema.channels.iter().find(is_it)?;
        let (part, parts) = parts_of(schema.dtype);
        let lists = i16::from(!channel.shape.is_empty()) + i16::from(parts > 1);
        if self.lists != lists || self.meaning.plain_dtype() != Some(part) {
            return None;
        }
        let elements = channel.elements().expect("a checked schema") as usize;
        Some((channel, Nesting { elements, parts, lists }))
    }
}

impl Nesting {
    /// Structure of a column with one number in a row.
    pub(super) const FLAT: Self = Self { elements: 1, parts: 1, lists: 0 };

    /// Returns the number of numbers in a row.
    pub(super) const fn row_numbers(self) -> usize {
        self.elements * self.parts
    }
}

impl Column {
    /// Examines a leaf column: described, if it still matches the description, or of numbers or lists of them.
    pub(super) fn new(at: usize, leaf: &Leaf, described: Option<&Schema>) -> Result<Self, TableError> {
        let name = leaf.name.clone();
        if let Some((schema, (channel, nesting))) =
            described.and_then(|schema| Some((schema, leaf.as_described(schema)?)))
        {
            let channel = channel.clone();
            return Ok(Self { leaf: at, name, dtype: schema.dtype, channel, nesting });
        }
        if leaf.is_grouped || leaf.lists > 1 {
            return Err(leaf.not_numbers("nested groups or lists of lists".to_owned()));
        }
        let (dtype, decimals) = match &leaf.meaning {
            Meaning::Numbers { dtype, decimals } => (*dtype, *decimals),
            Meaning::Times { .. } => return Err(leaf.not_numbers("times".to_owned())),
            Meaning::Other(holds) => return Err(leaf.not_numbers(holds.clone())),
        };
        let read = heading(&name, at);
        let channel = Channel::new(channel_name(&read.name), read.unit);
        let channel = channel.with_scale(scale_of(decimals), 0.0);
        let elements = if leaf.lists > 0 { 0 } else { 1 };
        let nesting = Nesting { elements, parts: 1, lists: leaf.lists };
        Ok(Self { leaf: at, name, dtype, channel, nesting })
    }

    /// Gives a column of lists the length of its rows.
    pub(super) fn set_length(&mut self, elements: usize) -> Result<(), TableError> {
        let extent = u32::try_from(elements).ok().filter(|extent| *extent > 0);
        let empty = || TableError::NotNumbers {
            column: self.name.clone(),
            holds: "lists without elements".to_owned(),
        };
        let extent = extent.ok_or_else(empty)?;
        self.nesting.elements = elements;
        self.channel.shape = vec![extent];
        Ok(())
    }
}

/// Returns the scale of decimals, exact to the last bit of a float.
fn scale_of(decimals: u32) -> f64 {
    if decimals == 0 { 1.0 } else { format!("1e-{decimals}").parse().expect("a float in decimal digits") }
}

/// Returns the type of the numbers in an element, and their number.
pub(super) const fn parts_of(dtype: Dtype) -> (Dtype, usize) {
    match dtype {
        Dtype::C8 => (Dtype::F4, 2),
        Dtype::C16 => (Dtype::F8, 2),
        real => (real, 1),
    }
}
