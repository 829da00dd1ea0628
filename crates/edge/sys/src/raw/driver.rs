//! Names and values of a driver's counters, as `ethtool -S` reads them.
//!
//! The kernel writes as many values as the driver has at that moment, whatever size the caller
//! gives (`net/ethtool/ioctl.c`, `ethtool_get_stats`); the number depends on the queues, which may
//! change meanwhile. So it is read before, and there is room for a multiple.

use std::io;

use nix::libc;

use super::{ethtool_by, interface_socket, request_of};

/// Maximum number of counters of a driver that is read at all; the largest drivers have about ten
/// thousand.
const MOST: usize = 16_384;
/// Room for values: the number does not become four times larger between two system calls.
const ROOM: usize = 4 * MOST;
/// Size of a name (`ETH_GSTRING_LEN`).
pub(crate) const DRIVER_NAME_BYTES: usize = 32;
/// Number of the set of drivers' counters among the sets of names (`ETH_SS_STATS` of
/// `linux/ethtool.h`).
const STATISTICS: u32 = 1;

/// Reads drivers' counters, repeatedly by the same socket and into the same memory; takes no
/// privilege.
#[derive(Debug)]
pub(crate) struct DriverCounts {
    socket: socket2::Socket,
    values: Vec<u32>,
}

impl DriverCounts {
    /// Opens a socket for interfaces of this thread's network namespace.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self { socket: interface_socket()?, values: Vec::new() })
    }

    /// Returns the number of a driver's counters.
    ///
    /// # Errors
    /// The kernel's error; `Unsupported` if it has none, or more than are read here.
    fn count(&self, request: libc::ifreq) -> io::Result<usize> {
        const GET_SET_INFO: u32 = 0x37;
        // The mask of sets, in two words.
        let mask = (1_u64 << STATISTICS).to_ne_bytes();
        let [low, high] =
            [0, 4].map(|at| u32::from_ne_bytes(mask[at..at + 4].try_into().expect("four bytes")));
        let mut info = [GET_SET_INFO, 0, low, high, 0];
        // SAFETY: for one set in the mask the kernel writes one word behind it, which `info` has.
        unsafe { ethtool_by(&self.socket, request, &mut info) }?;
        // The kernel clears the bit of a set that the driver does not have.
        let has_it = info[2..4] != [0, 0];
        let count = info[4] as usize;
        if has_it && (1..=MOST).contains(&count) { Ok(count) } else { Err(io::ErrorKind::Unsupported.into()) }
    }

    /// Returns the names of the counters of an interface's driver, 32 bytes each.
    ///
    /// # Errors
    /// The kernel's error; `Unsupported` if it has none, or more than are read here.
    pub(crate) fn names(&self, interface: &str) -> io::Result<Vec<u8>> {
        const GET_STRINGS: u32 = 0x1b;
        const WORDS_OF_NAME: usize = DRIVER_NAME_BYTES / 4;
        let request = request_of(interface)?;
        self.count(request)?;
        let mut strings = vec![0_u32; 3 + ROOM * WORDS_OF_NAME];
        strings[..2].copy_from_slice(&[GET_STRINGS, STATISTICS]);
        // SAFETY: the kernel writes as many names as the driver has, at most `MOST` a moment ago: there is room for four times as many.
        unsafe { ethtool_by(&self.socket, request, &mut strings) }?;
        let count = (strings[2] as usize).min(ROOM);
        Ok(strings[3..][..count * WORDS_OF_NAME].iter().flat_map(|word| word.to_ne_bytes()).collect())
    }

    /// Returns the values, in the order of the names.
    ///
    /// # Errors
    /// As for [`Self::names`].
    pub(crate) fn values(&mut self, interface: &str) -> io::Result<impl ExactSizeIterator<Item = u64>> {
        const GET_VALUES: u32 = 0x1d;
        let request = request_of(interface)?;
        self.count(request)?;
        // Large zeroed memory takes pages only where it is written.
        self.values.resize(2 + 2 * ROOM, 0);
        self.values[0] = GET_VALUES;
        // SAFETY: the kernel writes as many values of 64 bits as the driver has, at most `MOST` a moment ago: there is room for four
        // times as many.
        unsafe { ethtool_by(&self.socket, request, &mut self.values) }?;
        let count = (self.values[1] as usize).min(ROOM);
        Ok(self.values[2..][..2 * count].chunks_exact(2).map(value))
    }
}

/// Returns a number of 64 bits from two words.
fn value(words: &[u32]) -> u64 {
    let [first, second] = [words[0], words[1]].map(u64::from);
    if cfg!(target_endian = "little") { first | second << 32 } else { first << 32 | second }
}
