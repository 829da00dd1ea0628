//! Layout of a Parquet table: names and types of columns, and the order of a sample's elements in them.
//!
//! Lists are arrays or complex numbers. The description of an archive's table tells which; in another table they are
//! arrays, all of the length of the first.

use parquet::basic::Repetition;
use parquet::schema::types::{ColumnDescPtr, ColumnDescriptor};
use sample::{Channel, Dtype, Schema};

use super::ParquetError;
use super::meaning::Meaning;
use crate::columns::{channel_name, is_leading};
use crate::numbers::heading;

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
#[derive(Clone, Copy, Debug)]
pub(super) struct Nesting {
    /// Number of elements in one row; 0 in a list that is not described until its first row is read.
    pub(super) elements: usize,
    /// Number of numbers in one element: two if it is complex.
    pub(super) parts: usize,
    /// Number of lists around a number.
    pub(super) lists: i16,
    /// Definition level at which nothing is null.
    pub(super) defined: i16,
}

impl Nesting {
    /// Returns the number of numbers in a row.
    pub(super) const fn row_numbers(self) -> usize {
        self.elements * self.parts
    }
}

impl Column {
    /// Examines a leaf column: described, if it still matches the description, or of numbers or lists of them.
    pub(super) fn new(
        leaf: usize,
        leaves: &[ColumnDescPtr],
        described: Option<&Schema>,
    ) -> Result<Self, ParquetError> {
        let descriptor = &leaves[leaf];
        let name = column_name(descriptor);
        if let Some((channel, nesting)) = described.and_then(|schema| as_described(descriptor, &name, schema))
        {
            let dtype = described.expect("the channel is its").dtype;
            return Ok(Self { leaf, name, dtype, channel: channel.clone(), nesting });
        }
        let lists = lists_of(leaf, leaves).ok_or_else(|| nested(&name))?;
        let (dtype, decimals) = match Meaning::of(descriptor) {
            Meaning::Numbers { dtype, decimals } => (dtype, decimals),
            Meaning::Times { .. } => return Err(not_numbers(&name, "times".to_owned())),
            Meaning::Other(holds) => return Err(not_numbers(&name, holds)),
        };
        let read = heading(&name, leaf);
        let channel = Channel::new(channel_name(&read.name), read.unit);
        let channel = channel.with_scale(scale_of(decimals), 0.0);
        let elements = if lists > 0 { 0 } else { 1 };
        let nesting = Nesting { elements, parts: 1, lists, defined: descriptor.max_def_level() };
        Ok(Self { leaf, name, dtype, channel, nesting })
    }

    /// Gives a column of lists the length of its rows.
    pub(super) fn set_length(&mut self, elements: usize) -> Result<(), ParquetError> {
        let extent = u32::try_from(elements).ok().filter(|extent| *extent > 0);
        let extent = extent.ok_or_else(|| not_numbers(&self.name, "lists without elements".to_owned()))?;
        self.nesting.elements = elements;
        self.channel.shape = vec![extent];
        Ok(())
    }
}

/// Returns the number of lists around the numbers of a column that is not described: one at most. `None` if it is
/// nested otherwise.
fn lists_of(leaf: usize, leaves: &[ColumnDescPtr]) -> Option<i16> {
    let descriptor = &leaves[leaf];
    let parts = descriptor.path().parts();
    if is_flat(descriptor) {
        return Some(0);
    }
    // `list.element` or the like; a map and a list of groups have several columns.
    let is_alone = leaves.iter().filter(|other| other.path().parts()[0] == parts[0]).count() == 1;
    (descriptor.max_rep_level() == 1 && parts.len() <= 3 && is_alone).then_some(1)
}

/// Returns the lowest definition level at which there is an element, null or not.
pub(super) fn element_level(descriptor: &ColumnDescriptor) -> i16 {
    let is_optional = descriptor.self_type().get_basic_info().repetition() == Repetition::OPTIONAL;
    descriptor.max_def_level() - i16::from(is_optional)
}

/// Returns the scale of decimals, exact to the last bit of a float.
fn scale_of(decimals: u32) -> f64 {
    if decimals == 0 { 1.0 } else { format!("1e-{decimals}").parse().expect("a float in decimal digits") }
}

fn not_numbers(column: &str, holds: String) -> ParquetError {
    ParquetError::NotNumbers { column: column.to_owned(), holds }
}

fn nested(column: &str) -> ParquetError {
    not_numbers(column, "nested groups or lists of lists".to_owned())
}

/// Returns the heading by which a column is chosen: for a described one its name unchanged.
pub(super) fn heading_of(leaf: usize, descriptor: &ColumnDescriptor, described: Option<&Schema>) -> Channel {
    let name = column_name(descriptor);
    if described.is_some() { Channel::new(name, "") } else { heading(&name, leaf) }
}

/// Returns a column's name: for a list that of the list, not of its content.
fn column_name(descriptor: &ColumnDescriptor) -> String {
    let path = descriptor.path();
    if descriptor.max_rep_level() > 0 { path.parts()[0].clone() } else { path.string() }
}

/// Rejects lists and nested groups.
pub(super) fn check_flat(descriptor: &ColumnDescriptor, name: &str) -> Result<(), ParquetError> {
    if is_flat(descriptor) { Ok(()) } else { Err(not_numbers(name, "lists or nested groups".to_owned())) }
}

fn is_flat(descriptor: &ColumnDescriptor) -> bool {
    descriptor.max_rep_level() == 0 && descriptor.max_def_level() <= 1
}

/// Returns the channel of a column by the description, and the structure of its elements; `None` if it has none, or
/// no longer matches.
fn as_described<'a>(
    descriptor: &ColumnDescriptor,
    name: &str,
    schema: &'a Schema,
) -> Option<(&'a Channel, Nesting)> {
    let is_it = |channel: &&Channel| channel.name == channel_name(name) && !is_leading(name);
    let channel = schema.channels.iter().find(is_it)?;
    let (part, parts) = parts_of(schema.dtype);
    let lists = i16::from(!channel.shape.is_empty()) + i16::from(parts > 1);
    if descriptor.max_rep_level() != lists || Meaning::of(descriptor).plain_dtype() != Some(part) {
        return None;
    }
    let elements = channel.elements().expect("a checked schema") as usize;
    Some((channel, Nesting { elements, parts, lists, defined: descriptor.max_def_level() }))
}

/// Returns the type of the numbers in an element, and their number.
pub(super) const fn parts_of(dtype: Dtype) -> (Dtype, usize) {
    match dtype {
        Dtype::C8 => (Dtype::F4, 2),
        Dtype::C16 => (Dtype::F8, 2),
        real => (real, 1),
    }
}
