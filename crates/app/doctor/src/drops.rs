//! The kernel's drop events, of this network namespace.

use std::io;
use std::os::unix::fs::MetadataExt;

use bpf::{Hook, HookError, Options, Unseen};
use fate::{DropEvent, Profile};

use crate::watcher::Wanted;

/// Drop events as they come, of this network namespace only.
#[derive(Debug)]
pub struct Drops {
    hook: Hook,
    /// The number of this namespace; `None` where it cannot be seen, and then all are taken.
    namespace: Option<u32>,
    /// What was collected and not taken yet.
    events: Vec<DropEvent>,
}

/// The hook takes no more ports; with more, all datagrams are looked at.
const MAX_PORTS: usize = 8;

impl Drops {
    /// Begins to look at what the kernel frees unread.
    ///
    /// # Errors
    /// [`HookError`]: mostly that this process may not.
    pub fn begin(wanted: &Wanted, profiles: &[Profile]) -> Result<Self, HookError> {
        // Of a process its sockets' ports may change meanwhile.
        let is_of_few_ports = wanted.pids.is_empty() && wanted.ports.len() <= MAX_PORTS;
        let ports = wanted.ports.iter().copied().filter(|_| is_of_few_ports).collect();
        let hook = Hook::load(&Options { ports, profiles: profiles.to_vec(), ..Options::default() })?;
        let namespace = std::fs::metadata("/proc/self/ns/net").ok();
        let namespace = namespace.and_then(|it| u32::try_from(it.ino()).ok());
        Ok(Self { hook, namespace, events: Vec::new() })
    }

    /// Tells whether places in the kernel have names: without `CAP_SYSLOG` they have none.
    #[must_use]
    pub fn has_locations(&self) -> bool {
        self.hook.has_locations()
    }

    /// Collects what there is: the hook has room for so much only.
    pub(crate) fn collect(&mut self) -> io::Result<()> {
        let before = self.events.len();
        self.hook.drain(&mut self.events)?;
        // Where the kernel had let go of the namespace already, it may be this one.
        let is_here = |event: &DropEvent| {
            event.namespace.is_none() || self.namespace.is_none() || event.namespace == self.namespace
        };
        let here: Vec<DropEvent> = self.events.drain(before..).filter(is_here).collect();
        self.events.extend(here);
        Ok(())
    }

    /// Takes all that was collected.
    pub(crate) fn take(&mut self) -> io::Result<Vec<DropEvent>> {
        self.collect()?;
        Ok(std::mem::take(&mut self.events))
    }

    pub(crate) fn unseen(&self) -> io::Result<Unseen> {
        self.hook.unseen()
    }
}
