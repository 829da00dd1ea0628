//! The real program, run as users run it, on the loopback interface with its own port for each test.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

mod access;
mod account_page;
mod accounts;
mod apps;
mod archive;
mod audit;
mod demo;
mod doctor;
mod frozen;
mod graph;
mod heard;
mod key_service;
mod keys;
mod playback;
mod program;
mod proof;
mod query;
mod reaches;
mod refusals;
mod runs;
mod secrets_kept;
mod secured;
mod steer;
mod streams;
mod top;
mod transfer;
mod transfer_neighbours;
mod transfer_secured;
