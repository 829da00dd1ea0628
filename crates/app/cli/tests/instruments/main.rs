//! The verbs that measure, run as users run them: `bench`, `lab`, `link`.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

mod bench;
mod capacity;
mod cost;
mod iperf3;
mod keyed_server;
mod lab;
mod link;
mod measured;
mod multicast;
mod pingpong;
#[path = "../cli/program.rs"]
mod program;
mod sweep;
mod throughput;
