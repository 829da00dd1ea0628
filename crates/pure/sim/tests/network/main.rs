//! Effects of a network on nodes, seen from outside: multicast, hosts, determinism, and its guards.

mod determinism;
mod guards;
mod hosts;
mod multicast;
mod part;
mod processes;
mod scale;
mod sites;
