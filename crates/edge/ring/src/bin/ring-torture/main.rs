//! One process of the torture of rings in shared memory; `tests/processes.rs` starts many and kills them.
//!
//! `write PATH RUN` writes records that carry their own proof until it is killed, and puts a byte out for every
//! few of them. `read PATH` follows whoever writes there, checks every record, and ends with its standard input.
//! Under loom, which has no processes, there is nothing to play.

#[cfg(not(loom))]
mod torture;

#[cfg(not(loom))]
fn main() -> std::process::ExitCode {
    torture::main()
}

#[cfg(loom)]
fn main() {}
