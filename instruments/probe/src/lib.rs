//! Methods of measurement: values in, values out, so that a method is proven before it meets a socket.
//!
//! [`cycle`] is one run of a cyclic exchange, a fixed number of elements per period, with its schedule, account and
//! judge; [`flow`] is a paced flow of numbered datagrams with its account; [`pingpong`] is the repeated exchange of
//! messages. [`Bisection`] searches for the largest size that holds, [`RateSearch`] for the highest rate that holds
//! repeatedly. [`mhz_per_mbit`] is the processor cost of moving data at its [`BusyFrequency`]. [`Summary`] and
//! [`Moments`] summarise and compare repeats, [`Percentiles`] summarise many times. A [`DutyCycle`] keeps a
//! processor busy for a share of the time.
//!
//! Not here: clocks, sockets, processes (`bench` runs these methods over real ones).

mod bisection;
mod busy_frequency;
mod cost;
pub mod cycle;
mod duty_cycle;
pub mod flow;
mod moments;
mod percentiles;
pub mod pingpong;
mod rate_search;
mod summary;

pub use bisection::{Answer, Bisection, Found, Next};
pub use busy_frequency::{BusyFrequency, is_unsteady};
pub use cost::mhz_per_mbit;
pub use duty_cycle::{DutyCycle, Phase};
pub use moments::Moments;
pub use percentiles::Percentiles;
pub use rate_search::{NextRate, RateSearch, Resolution};
pub use summary::{Contrast, Summary};
