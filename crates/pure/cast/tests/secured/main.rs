//! Secured streams in the virtual network: an attacker that sees and sends anything changes no account.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod by_hand;
mod clocks;
mod ends;
mod gate;
mod group_level;
mod laboratory;
mod members;
mod mixtures;
mod nodes;
mod relayed;
mod two_publishers;
mod withholding;
