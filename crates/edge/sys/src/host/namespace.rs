//! Execution of code in another network namespace.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Directory in which `ip netns` keeps its named namespaces.
const NAMED: &str = "/run/netns";

/// Reason why a network namespace cannot be entered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NamespaceError {
    /// There is no namespace of that name.
    #[error(
        "there is no network namespace {name}\ncreate it with: sudo ip netns add {name} && sudo ip -n {name} link set lo up"
    )]
    NotFound {
        /// Name asked for.
        name: String,
    },
    /// Entering it requires root.
    #[error("this user may not enter network namespace {name}\nrun it as root")]
    NotPermitted {
        /// Name asked for.
        name: String,
    },
    /// Any other error.
    #[error("network namespace {name} cannot be entered")]
    System {
        /// Name asked for.
        name: String,
        /// Error of the kernel.
        #[source]
        source: io::Error,
    },
}

/// Runs `act` on a thread of its own in a network namespace: one that `ip netns` names, or a path
/// such as `/proc/7/ns/net`.
///
/// Descriptors that it opens belong to that namespace, and can be used from anywhere.
///
/// # Errors
/// [`NamespaceError`] if it cannot be entered.
///
/// # Panics
/// If `act` panics.
pub fn in_namespace<T: Send>(name: &str, act: impl FnOnce() -> T + Send) -> Result<T, NamespaceError> {
    let path = if name.contains('/') { PathBuf::from(name) } else { Path::new(NAMED).join(name) };
    let enter = || {
        let namespace = File::open(path)?;
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(act())
    };
    let entered = std::thread::scope(|scope| scope.spawn(enter).join());
    entered.unwrap_or_else(|panic| std::panic::resume_unwind(panic)).map_err(|source: io::Error| {
        let name = name.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => NamespaceError::NotFound { name },
            io::ErrorKind::PermissionDenied => NamespaceError::NotPermitted { name },
            _ => NamespaceError::System { name, source },
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_that_is_not_there_is_told_with_the_way_to_make_it() {
        let said = in_namespace("no-such-namespace", || ()).unwrap_err().to_string();
        assert!(said.contains("ip netns add no-such-namespace"), "{said}");
        let error = in_namespace("/dev/null", || ()).unwrap_err();
        assert!(
            matches!(error, NamespaceError::System { .. } | NamespaceError::NotPermitted { .. }),
            "{error}"
        );
    }

    #[test]
    fn ones_own_namespace_is_one_too() {
        let outcome = in_namespace("/proc/self/ns/net", || crate::links().unwrap().len());
        match outcome {
            Ok(links) => assert_eq!(links, crate::links().unwrap().len()),
            Err(NamespaceError::NotPermitted { .. }) => println!("SKIPPED: only root may enter a namespace"),
            Err(error) => panic!("{error}"),
        }
    }
}
