//! A monitor over real multicast on this host's loopback, queried like a browser and a program would.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

#[path = "../../../../../tests/contract/src/accounts.rs"]
pub mod accounts;
mod behind;
mod control;
mod deadline;
mod events;
mod export;
mod graph;
mod horizons;
mod kept;
mod neighbours;
mod operators;
mod page;
mod pictures;
mod reading;
mod roles;
mod runs;
mod scene;
mod shared_views;
mod state;
mod steer;
mod strangers;
mod tls;
mod views;
