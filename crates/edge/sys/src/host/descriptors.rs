//! Limit of open files of this process: sockets, pipes and memory are among them.
//!
//! A process that accepts connections must leave descriptors for its own files; the bound on
//! connections is computed from this limit.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Maximum limit to request: some systems set none at all, and children that close every possible
/// descriptor one by one would take minutes. A monitor of thousands of streams needs a few
/// thousand.
const MOST_WANTED: u64 = 65_536;

/// Raises the soft limit on open files as far as this process may, at most to 65,536, and returns
/// the resulting limit.
///
/// A higher limit stays. Where the system refuses, the limit stays as it was.
pub fn raise_descriptor_limit() -> u64 {
    let before = getrlimit(Resource::Nofile);
    let wanted = raised(before);
    if wanted.current != before.current {
        // A refusal changes nothing: the limit is read below.
        let _ = setrlimit(Resource::Nofile, wanted);
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Returns the limit to request; `None` in either field means no limit.
fn raised(limit: Rlimit) -> Rlimit {
    let Some(current) = limit.current else { return limit };
    let most = limit.maximum.unwrap_or(u64::MAX).min(MOST_WANTED);
    Rlimit { current: Some(current.max(most)), maximum: limit.maximum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_raised_as_far_as_is_allowed_and_never_lowered() {
        let after = |current, maximum| raised(Rlimit { current, maximum }).current;
        assert_eq!(after(Some(1_024), Some(4_096)), Some(4_096));
        assert_eq!(after(Some(1_024), Some(1_048_576)), Some(MOST_WANTED));
        assert_eq!(after(Some(1_024), None), Some(MOST_WANTED));
        assert_eq!(after(Some(100_000), Some(1_048_576)), Some(100_000));
        assert_eq!(after(Some(64), Some(64)), Some(64));
        assert_eq!(after(None, None), None);
        assert_eq!(raised(Rlimit { current: Some(1), maximum: Some(9) }).maximum, Some(9));
    }
}
