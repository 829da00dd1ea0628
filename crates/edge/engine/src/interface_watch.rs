//! Watches the interface that an agent uses: it may vanish, return under its name, or get other
//! addresses.
//!
//! The kernel reports that something changed; the interface is then looked up by its name and
//! compared with its last state. Sockets keep numbers and addresses that no longer exist, so their
//! agent opens them again. One warning says that the interface is gone, and one line that it is
//! back.

use std::os::fd::{AsFd, BorrowedFd};

use sys::{Interface, LinkEvents};

/// Purpose for which an agent uses an interface, as its messages name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// It sends there.
    Sending,
    /// It receives there.
    Receiving,
}

/// Watches an agent's interface.
#[derive(Debug)]
pub(crate) struct InterfaceWatch {
    events: Option<LinkEvents>,
    purpose: Use,
    /// Last state of the interface while it existed; `None` where the kernel's routes choose.
    last: Option<Interface>,
    is_there: bool,
}

/// A change of interfaces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// The agent's interface is back, or has another number or other addresses.
    Interface(Interface),
    /// Some interface of this host has changed, and the agent is bound to none.
    Somewhere,
}

impl InterfaceWatch {
    /// Begins to watch, in the network namespace of this thread. A loopback interface does not
    /// change.
    pub(crate) fn new(interface: Option<&Interface>, purpose: Use) -> Self {
        let is_of_use = match interface {
            Some(interface) => !interface.loopback,
            // Groups are joined at the interface that the routes choose, whose changes the kernel
            // does not report.
            None => purpose == Use::Sending,
        };
        let opened = is_of_use.then(LinkEvents::open).transpose();
        let events = opened.unwrap_or_else(|error| {
            let name = interface.map_or("an interface", |interface| interface.name.as_str());
            tracing::warn!("changes of interface {name} cannot be watched: {error}");
            None
        });
        Self { events, purpose, last: interface.cloned(), is_there: true }
    }

    /// Returns the descriptor that a poller may wait for, if any.
    pub(crate) fn source(&self) -> Option<BorrowedFd<'_>> {
        self.events.as_ref().map(AsFd::as_fd)
    }

    /// Returns the change since the last call, if any. Cost: a system call where nothing has
    /// changed.
    pub(crate) fn look(&mut self) -> Option<Change> {
        if !self.events.as_ref()?.take() {
            return None;
        }
        let Some(last) = &self.last else { return Some(Change::Somewhere) };
        // By its name alone: another interface may have got its number or its address meanwhile.
        let found = Interface::all().ok()?.into_iter().find(|interface| interface.name == last.name);
        self.compare(found)
    }

    /// Compares the interface found with its last state, and logs a change.
    fn compare(&mut self, found: Option<Interface>) -> Option<Change> {
        let last = self.last.as_ref()?;
        let name = &last.name;
        let (done, again) = match self.purpose {
            Use::Sending => ("sent", "sends"),
            Use::Receiving => ("received", "receives"),
        };
        let Some(found) = found else {
            if std::mem::replace(&mut self.is_there, false) {
                tracing::warn!("interface {name} is gone: nothing is {done} there until it returns");
            }
            return None;
        };
        if !std::mem::replace(&mut self.is_there, true) {
            tracing::warn!("interface {name} is back: this process {again} there again");
        }
        let is_same = found.index == last.index && found.addresses == last.addresses;
        self.last = Some(found.clone());
        (!is_same).then_some(Change::Interface(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(index: u32, addresses: &[&str]) -> Interface {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        Interface { name: "eth7".into(), index, addresses, loopback: false, up: true, mtu: 1_500 }
    }

    #[test]
    fn another_number_or_address_is_a_change_and_to_be_away_is_none() {
        let first = interface(7, &["10.0.0.1"]);
        let mut watch = InterfaceWatch {
            events: None,
            purpose: Use::Receiving,
            last: Some(first.clone()),
            is_there: true,
        };
        assert_eq!(watch.compare(Some(first.clone())), None);
        let moved = interface(7, &["10.0.0.77"]);
        assert_eq!(watch.compare(Some(moved.clone())), Some(Change::Interface(moved.clone())));
        assert_eq!((watch.compare(None), watch.is_there), (None, false));
        // Returns under another number, first without its address.
        for back in [interface(8, &[]), interface(8, &["10.0.0.77"])] {
            assert_eq!(watch.compare(Some(back.clone())), Some(Change::Interface(back.clone())));
            assert_eq!((watch.compare(Some(back)), watch.is_there), (None, true));
        }
        // Gone and back unchanged: its sockets remain valid.
        assert_eq!(watch.compare(None), None);
        assert_eq!(watch.compare(Some(interface(8, &["10.0.0.77"]))), None);
    }

    #[test]
    fn loopback_takes_no_descriptor() {
        let lo = Interface::find("lo").unwrap();
        assert!(InterfaceWatch::new(Some(&lo), Use::Sending).source().is_none());
        assert!(InterfaceWatch::new(None, Use::Receiving).source().is_none());
        assert!(InterfaceWatch::new(None, Use::Sending).source().is_some());
    }
}
