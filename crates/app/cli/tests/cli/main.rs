//! The real program, run as people run it, on the loopback interface with a port of its own for each test.

mod account_page;
mod archive;
mod demo;
mod program;
mod refusals;
mod streams;
