//! The path between two network namespaces: a TUN device in each, and whatever IP the two say to each other passes.
//!
//! It needs root. The ends are real: sockets, their buffers and the kernel's own transports work as over any interface.
//! Trains of UDP come and go in one piece where the kernel has that (USO); each datagram of them is judged on its own.

mod packet;
mod work;

use std::io;
use std::net::Ipv4Addr;

use sys::{NamespaceError, Tun, TunError, TunOptions, in_namespace};

use crate::conditions::{Conditions, ConditionsError};
use crate::driver::{Manner, Trains};
use crate::report::{Report, Watch};
use work::Work;

/// The interface's name in both namespaces unless it is said otherwise.
pub const USUAL_NAME: &str = "tally0";
/// The addresses unless they are said.
pub const USUAL_ADDRESSES: [(Ipv4Addr, u8); 2] =
    [(Ipv4Addr::new(10, 84, 7, 1), 24), (Ipv4Addr::new(10, 84, 7, 2), 24)];
/// The MTU unless it is said.
pub const USUAL_MTU: u32 = 1_500;
/// How many packets wait to be read before the kernel drops more: a stall of 120 ms at 1 Gbit/s in single packets.
const QUEUE_PACKETS: u32 = 10_000;

/// Between which namespaces the path is, and what it is like.
#[derive(Clone, Debug)]
pub struct BetweenOptions {
    /// The two, as `ip netns` names them, or as paths.
    pub namespaces: [String; 2],
    /// The interface's name in both.
    pub name: String,
    /// Its address in each, and how many bits of it the network shares.
    pub addresses: [(Ipv4Addr, u8); 2],
    /// Its MTU.
    pub mtu: u32,
    /// The path from the first to the second.
    pub forward: Conditions,
    /// The path from the second to the first.
    pub reverse: Conditions,
    /// Decides all that is left to chance.
    pub seed: u64,
    /// How a driver works.
    pub manner: Manner,
}

/// Why there is no path between two namespaces.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BetweenError {
    /// The path cannot be so.
    #[error(transparent)]
    Conditions(#[from] ConditionsError),
    /// A namespace.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// A device.
    #[error(transparent)]
    Tun(#[from] TunError),
    /// The two are one.
    #[error("namespace {0} is at both ends\nname two different ones")]
    Same(String),
}

/// A path between two namespaces that is there, and carries as soon as it [runs](Self::run).
pub struct Between {
    ends: [Tun; 2],
    options: BetweenOptions,
}

impl Between {
    /// Makes a device in each namespace; they are gone when this is.
    ///
    /// # Errors
    /// [`BetweenError`] says what to do about it.
    pub fn open(options: BetweenOptions) -> Result<Self, BetweenError> {
        options.forward.link()?;
        options.reverse.link()?;
        let [one, other] = &options.namespaces;
        if one == other {
            return Err(BetweenError::Same(one.clone()));
        }
        let ends = [options.device(0)?, options.device(1)?];
        Ok(Self { ends, options })
    }

    /// Tells whether trains of UDP were wanted and this kernel has none at a TUN device (before Linux 6.2).
    #[must_use]
    pub fn lacks_trains(&self) -> bool {
        self.options.manner.trains == Trains::Taken && !self.ends.iter().all(Tun::takes_trains)
    }

    /// Carries packets until the watch stops it.
    ///
    /// # Errors
    /// If the wanted priority is not allowed, or the kernel fails a device or a wait.
    pub fn run(self, watch: &Watch) -> io::Result<Report> {
        Work::begin(self.ends, self.options)?.run(watch)
    }
}

impl BetweenOptions {
    /// Makes options of what has to be said.
    #[must_use]
    pub fn new(namespaces: [String; 2], conditions: Conditions, seed: u64) -> Self {
        Self {
            namespaces,
            name: USUAL_NAME.to_owned(),
            addresses: USUAL_ADDRESSES,
            mtu: USUAL_MTU,
            forward: conditions.clone(),
            reverse: conditions,
            seed,
            manner: Manner::default(),
        }
    }

    fn device(&self, end: usize) -> Result<Tun, BetweenError> {
        let (address, prefix_bits) = self.addresses[end];
        let options = TunOptions {
            name: self.name.clone(),
            address,
            prefix_bits,
            mtu: self.mtu,
            queue_packets: QUEUE_PACKETS,
            trains: self.manner.trains == Trains::Taken,
        };
        Ok(in_namespace(&self.namespaces[end], || Tun::open(&options))??)
    }
}
