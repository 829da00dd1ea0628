//! Core dumps of processes that hold secrets: they would be on the disk, or with a crash reporter, for others to read.
//!
//! Two settings of the process: a limit of size 0, which also crash reporters follow, and a filter that leaves the
//! process's own memory out of dumps that are piped to a program whatever the limit is (core(5), proc(5)). The process
//! stays traceable and its files in `/proc` stay its user's, unlike with `PR_SET_DUMPABLE`: evidence of losses is found
//! there. Marking single pages (`MADV_DONTDUMP`) would miss what libraries of ciphers copy.

use std::io;

use rustix::process::{Resource, Rlimit, setrlimit};

/// Kinds of memory in a dump, as bits: none.
const NOTHING: &str = "0";
const FILTER: &str = "/proc/self/coredump_filter";

/// Keeps this process's memory, and that of processes it starts, out of core dumps from now on.
///
/// # Errors
/// The first refusal of the system; the other setting stands all the same.
pub fn forbid_core_dumps() -> io::Result<()> {
    let limit = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let filter = std::fs::write(FILTER, NOTHING);
    limit?;
    filter
}
