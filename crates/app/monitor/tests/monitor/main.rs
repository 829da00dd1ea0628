//! A monitor over real multicast on this host's loopback, asked as browsers and programs ask it.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

mod behind;
mod control;
mod neighbours;
mod operators;
mod page;
mod reading;
mod scene;
mod strangers;
mod views;
