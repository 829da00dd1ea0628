//! Scenes of two ends in the virtual network, each about one behaviour.

mod blasts;
mod closing;
mod composed;
mod controls;
mod faults;
mod half_open;
mod handshakes;
mod hostile;
#[path = "../line/mod.rs"]
mod line;
mod live;
mod messages;
mod pair;
mod quirks;
mod sizes;
mod streams;
