//! Path between two network namespaces: a TUN device in each, which carries all IP traffic between them.
//!
//! It needs root. The ends are real: sockets, their buffers and the kernel's own transports work as over any
//! interface. UDP trains pass in one piece if the kernel supports that (USO); each of their datagrams is judged on
//! its own.

mod packet;
mod work;

use std::io;
use std::net::Ipv4Addr;

use sys::{NamespaceError, Tun, TunError, TunOptions, in_namespace};

use crate::conditions::{Conditions, ConditionsError};
use crate::driver::{Manner, Trains};
use crate::report::{Report, Watch};
use work::Work;

/// Default name of the interface in both namespaces.
pub const USUAL_NAME: &str = "tally0";
/// Default addresses.
pub const USUAL_ADDRESSES: [(Ipv4Addr, u8); 2] =
    [(Ipv4Addr::new(10, 84, 7, 1), 24), (Ipv4Addr::new(10, 84, 7, 2), 24)];
/// Default MTU. Units: bytes.
pub const USUAL_MTU: u32 = 1_500;
/// Number of packets that wait to be read before the kernel drops more: a stall of 120 ms at 1 Gbit/s in single
/// packets.
const QUEUE_PACKETS: u32 = 10_000;

/// Namespaces and conditions of the path between them.
#[derive(Clone, Debug)]
pub struct BetweenOptions {
    /// The two namespaces, as `ip netns` names them, or as paths.
    pub namespaces: [String; 2],
    /// Name of the interface in both.
    pub name: String,
    /// Interface address in each, with its prefix length.
    pub addresses: [(Ipv4Addr, u8); 2],
    /// MTU of the interface. Units: bytes.
    pub mtu: u32,
    /// Path from the first to the second.
    pub forward: Conditions,
    /// Path from the second to the first.
    pub reverse: Conditions,
    /// Seed of all random decisions.
    pub seed: u64,
    /// Settings of the driver.
    pub manner: Manner,
}

/// Reason why there is no path between two namespaces.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BetweenError {
    /// The conditions are invalid.
    #[error(transparent)]
    Conditions(#[from] ConditionsError),
    /// A namespace cannot be used.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// A device cannot be made.
    #[error(transparent)]
    Tun(#[from] TunError),
    /// Both namespaces are the same.
    #[error("namespace {0} is at both ends\nname two different ones")]
    Same(String),
}

/// An open path between two namespaces; it carries packets while it [runs](Self::run).
pub struct Between {
    ends: [Tun; 2],
    options: BetweenOptions,
}

impl Between {
    /// Makes a device in each namespace; the devices are removed when the value is dropped.
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

    /// Returns whether UDP trains were requested and this kernel's TUN devices do not support them (before Linux
    /// 6.2).
    #[must_use]
    pub fn lacks_trains(&self) -> bool {
        self.options.manner.trains == Trains::Taken && !self.ends.iter().all(Tun::takes_trains)
    }

    /// Carries packets until the watch stops it.
    ///
    /// # Errors
    /// If the requested priority is not permitted, or the kernel fails a device or a wait.
    pub fn run(self, watch: &Watch) -> io::Result<Report> {
        Work::begin(self.ends, self.options)?.run(watch)
    }
}

impl BetweenOptions {
    /// Creates options from the required settings.
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
