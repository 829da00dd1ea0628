//! Drop events of the kernel for this network namespace.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use bpf::{Hook, HookError, Options, Unseen};
use diagnose::{DropEvent, Profile};
use ledger::Stage;
use sys::Interface;
use units::Instant;

use crate::wanted::Wanted;

/// Reader of drop events of this network namespace only.
#[derive(Debug)]
pub struct Drops {
    hook: Hook,
    /// Number of this namespace; `None` where it cannot be seen, and then all are taken.
    namespace: Option<u32>,
    /// Addresses of this namespace.
    addresses: BTreeSet<IpAddr>,
    /// Events that were collected and not taken yet.
    events: Vec<DropEvent>,
    /// True if each drop of our streams has its number and its stage: every event that is not missed is reported.
    names_all: bool,
    /// Events that were missed until the last snapshot.
    unseen: Unseen,
    /// End of the time in which a missed event may be absent.
    doubts_until: Instant,
}

/// Time after a missed event in which reports count as incomplete: longer than publishers wait between tallies.
const DOUBT: Duration = Duration::from_secs(2);

impl Drops {
    /// Starts to watch datagrams that the kernel frees unread.
    ///
    /// # Errors
    /// [`HookError`]: mostly that this process has no permission.
    pub fn begin(wanted: &Wanted, profiles: &[Profile]) -> Result<Self, HookError> {
        let ports = wanted.few_ports();
        let is_of_ours = ports.is_empty() && profiles.contains(&Profile::TALLYCAST);
        let hook = Hook::load(&Options { ports, profiles: profiles.to_vec(), ..Options::default() })?;
        Ok(Self {
            names_all: is_of_ours && hook.has_reasons() && hook.has_locations(),
            hook,
            namespace: sys::process::network_namespace(),
            addresses: BTreeSet::new(),
            events: Vec::new(),
            unseen: Unseen::default(),
            doubts_until: Instant::ORIGIN,
        })
    }

    /// Returns whether places in the kernel have names: without `CAP_SYSLOG` they have none.
    #[must_use]
    pub fn has_locations(&self) -> bool {
        self.hook.has_locations()
    }

    /// Collects the available events and returns them: the hook's buffer is limited.
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

    /// Adds holes at checkpoints.
    pub(crate) fn add(&mut self, holes: Vec<DropEvent>) {
        self.events.extend(holes);
    }

    /// Returns whether every recent drop of our streams' datagrams by this kernel is reported.
    pub(crate) fn sees_all(&mut self, now: Instant) -> io::Result<bool> {
        let unseen = self.unseen()?;
        if std::mem::replace(&mut self.unseen, unseen) != unseen {
            self.doubts_until = now + DOUBT;
        }
        Ok(self.names_all && now >= self.doubts_until)
    }

    /// Returns whether an event is of this namespace; if the kernel had released it already, by its addresses.
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

    /// Takes all collected events.
    pub(crate) fn take(&mut self) -> Vec<DropEvent> {
        std::mem::take(&mut self.events)
    }

    pub(crate) fn unseen(&self) -> io::Result<Unseen> {
        self.hook.unseen()
    }
}
