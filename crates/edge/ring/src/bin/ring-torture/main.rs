//! One process of the torture test of rings in shared memory; `tests/processes.rs` starts many and
//! kills them.
//!
//! `write PATH RUN` writes self-checking records until it is killed, and outputs a byte for every
//! few of them. `read PATH` follows the writer there, checks every record, and ends with its
//! standard input. Under loom, which has no processes, the program does nothing.

#[cfg(not(loom))]
mod torture;

#[cfg(not(loom))]
fn main() -> std::process::ExitCode {
    torture::main()
}

#[cfg(loom)]
fn main() {}
