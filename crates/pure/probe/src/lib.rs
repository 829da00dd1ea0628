//! How things are measured: values in, values out, so that a method is proven before it meets a socket.
//!
//! [`cycle`] is one run of "so many elements every so many milliseconds" with its schedule, its account and its
//! judge; [`Bisection`] looks for the largest size that holds; [`Summary`] says what repeats have in common.
//!
//! Not here: clocks, sockets, processes (`bench` runs these methods over real ones).

mod bisection;
pub mod cycle;
mod summary;

pub use bisection::{Answer, Bisection, Found, Next};
pub use summary::Summary;
