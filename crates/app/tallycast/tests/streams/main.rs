//! Publishers and subscribers over real sockets on this host's loopback.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

#[path = "../../../../../tests/contract/src/accounts.rs"]
pub mod accounts;
mod addresses;
mod blocks;
mod closing;
mod cyclic;
mod demand;
mod forgeries;
mod hostile;
mod key_service;
mod loopback;
mod queue;
mod relayed;
mod scene;
mod secured;
mod steering;
mod tapped;
