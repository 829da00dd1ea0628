//! The real program, run as users run it, on the loopback interface with its own port for each test.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

mod account_page;
mod accounts;
mod apps;
mod archive;
mod audit;
mod bench;
mod capacity;
mod cost;
mod demo;
mod doctor;
mod iperf3;
mod lab;
mod link;
mod multicast;
mod pingpong;
mod playback;
mod program;
mod query;
mod reaches;
mod refusals;
mod streams;
mod sweep;
mod throughput;
mod top;
mod transfer;
mod transfer_neighbours;
