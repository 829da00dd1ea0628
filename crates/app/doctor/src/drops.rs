//! The kernel's drop events, of this network namespace.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

use bpf::{Hook, HookError, Options, Unseen};
use fate::{DropEvent, Profile};
use ledger::Stage;
use sys::Interface;

use crate::watcher::Wanted;

/// Drop events as they come, of this network namespace only.
#[derive(Debug)]
pub struct Drops {
    hook: Hook,
    /// The number of this namespace; `None` where it cannot be seen, and then all are taken.
    namespace: Option<u32>,
    /// Those of this namespace.
    addresses: BTreeSet<IpAddr>,
    /// What was collected and not taken yet.
    events: Vec<DropEvent>,
}

impl Drops {
    /// Begins to look at what the kernel frees unread.
    ///
    /// # Errors
    /// [`HookError`]: mostly that this process may not.
    pub fn begin(wanted: &Wanted, profiles: &[Profile]) -> Result<Self, HookError> {
        let hook = Hook::load(&Options {
            ports: wanted.few_ports(),
            profiles: profiles.to_vec(),
            ..Options::default()
        })?;
        let namespace = sys::process::network_namespace();
        Ok(Self { hook, namespace, addresses: BTreeSet::new(), events: Vec::new() })
    }

    /// Tells whether places in the kernel have names: without `CAP_SYSLOG` they have none.
    #[must_use]
    pub fn has_locations(&self) -> bool {
        self.hook.has_locations()
    }

    /// Collects what there is, and returns it: the hook has room for so much only.
    pub(crate) fn collect(&mut self) -> io::Result<&[DropEvent]> {
        let before = self.events.len();
        self.hook.drain(&mut self.events)?;
        let is_homeless = |event: &DropEvent| event.namespace.is_none();
        if self.events[before..].iter().any(is_homeless) {
            self.addresses = Interface::all()?.into_iter().flat_map(|it| it.addresses).collect();
        }
        let here: Vec<DropEvent> =
            self.events.split_off(before).into_iter().filter(|it| self.is_here(it)).collect();
        self.events.extend(here);
        Ok(&self.events[before..])
    }

    /// Adds what is missing at checkpoints.
    pub(crate) fn add(&mut self, holes: Vec<DropEvent>) {
        self.events.extend(holes);
    }

    /// Where the kernel had let go of the namespace already, addresses tell.
    fn is_here(&self, event: &DropEvent) -> bool {
        let is_ours = |address: IpAddr| address.is_multicast() || self.addresses.contains(&address);
        match (event.namespace, self.namespace) {
            (Some(its), Some(ours)) => its == ours,
            (Some(_), None) => true,
            (None, _) => match event.stage() {
                Some(stage) if stage < Stage::Network => is_ours(event.source.ip()),
                Some(_) => is_ours(event.destination.ip()),
                None => is_ours(event.destination.ip()) || is_ours(event.source.ip()),
            },
        }
    }

    /// Takes all that was collected.
    pub(crate) fn take(&mut self) -> Vec<DropEvent> {
        std::mem::take(&mut self.events)
    }

    pub(crate) fn unseen(&self) -> io::Result<Unseen> {
        self.hook.unseen()
    }
}
