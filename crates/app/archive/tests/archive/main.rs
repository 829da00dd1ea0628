//! Tests of the archive's guarantees: acknowledged samples are stored, missing ones are recorded.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says why by panicking")]

mod crash;
mod damage;
mod forgetful;
mod golden;
mod kill;
mod mends;
mod mutation;
mod outage;
mod proof;
mod refill;
mod relayed;
mod retrieval;
mod round_trip;
mod scene;
mod waiting;
