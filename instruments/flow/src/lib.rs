//! Flows of test data over the sockets of this host.
//!
//! [`send`] is the loop of every paced sender, [`Ending`] announces the end of a flow to its receivers; [`udp`] has
//! the sockets of flows of datagrams, and [`Feed`] is a load for another program's reader.
//!
//! Not here: numbers, rates and accounts (`probe::flow`), measurements and their reports (`bench`).

mod ending;
mod feed;
mod paced;
mod refusal;
pub mod udp;

pub use ending::{Ending, Progress, Tail};
pub use feed::{Fed, Feed};
pub use paced::{Paced, Room, Sending, Timetable, send};
