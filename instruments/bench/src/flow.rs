//! Parts of flows of test data that all tests share, over the sockets of this host.
//!
//! [`send`] is the loop of every paced sender, [`Ending`] the news of a flow's end for its receivers; [`udp`] has
//! the sockets of flows of datagrams. Timetables, numbers and accounts are in `probe::flow`.

mod ending;
mod paced;
pub(crate) mod udp;

pub(crate) use ending::{Ending, News, Tail};
pub(crate) use paced::{Paced, Room, Timetable, send};
