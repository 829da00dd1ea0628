//! Named scenes of the stream machine over the virtual network, one behaviour each.
//!
//! In every scene the reader checks each event, and the law after each input, and at the end the accounts are
//! compared with the network's log; a test adds only its particular conditions.

mod beginnings;
mod crowd;
mod deadlines;
mod demand;
mod epochs;
mod evidence;
mod frames;
mod hops;
mod hops_played;
mod horizons;
mod hostile;
#[path = "../line/mod.rs"]
mod line;
mod loss;
mod relayed;
mod relayed_cuts;
mod relayed_refusals;
mod selection;
mod sockets;
mod statements;
mod versions;
mod victim;
