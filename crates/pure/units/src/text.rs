//! Quantities as text: one grammar and one notation for the command, the bus, the page and Python.
//!
//! [`duration`], [`durations`], [`size_bytes`], [`bits_per_second`] and [`probability`] read quantities; [`rate`],
//! [`size`], [`seconds`] and others write them; [`wrapped`] and [`hanging`] break sentences into lines.
//! Options of `bench` that follow iperf3 have their own notation there.

mod lines;
mod read;
mod write;

pub use lines::{broken, hanging, wrapped};
pub use read::{Durations, QuantityError, bits_per_second, duration, durations, probability, size_bytes};
pub use write::{
    counted, decimal_size, exact_size, grouped, percent, rate, rate_range, seconds, size, waiting,
};
