//! System calls that no safe crate offers in the form needed here; the only unsafe code of this
//! crate.
//!
//! `recvmmsg`: nix's keeps the control length that the kernel wrote, so that control messages are
//! truncated from the second call on. `SO_MEMINFO`, `TCP_INFO`, `SIOCGIFMTU`, `SIOCETHTOOL`,
//! `adjtimex`, `sched_setscheduler`, `pthread_atfork` and the calls in `device` are in no safe crate.
#![expect(unsafe_code, reason = "system calls that take pointers")]

mod device;
mod driver;
pub(crate) mod fork;

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use nix::libc;

pub(crate) use device::{Setting, make_tun, set_interface, set_tun_offloads};
pub(crate) use driver::{DRIVER_NAME_BYTES, DriverCounts};

/// Maximum number of datagrams that one system call receives.
///
/// Source: measured, 64 per call take 785–945 ns a datagram, single calls 900–1,100 ns; larger
/// batches gain nothing.
pub const BATCH_DATAGRAMS: usize = 64;

/// Space for the control messages of a datagram.
pub(crate) const CONTROL_BYTES: usize = 96;
/// Size of `struct sockaddr_in6`, the largest address of a UDP socket.
pub(crate) const NAME_BYTES: usize = 28;

/// Data that the kernel returns for one datagram, in addition to its bytes.
#[repr(C, align(8))]
#[derive(Clone)]
pub(crate) struct Slot {
    pub(crate) control: [u8; CONTROL_BYTES],
    pub(crate) name: [u8; NAME_BYTES],
    pub(crate) control_len: usize,
    pub(crate) len: usize,
    pub(crate) truncated: bool,
}

impl Slot {
    pub(crate) const EMPTY: Self =
        Self { control: [0; CONTROL_BYTES], name: [0; NAME_BYTES], control_len: 0, len: 0, truncated: false };
}

/// Memory and drops of a socket, from `SO_MEMINFO`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemInfo {
    /// Size of the receive queue, including the kernel's overhead.
    pub queued_bytes: u32,
    /// Size of the receive buffer, as in
    /// [`Buffer::effective_bytes`](crate::Buffer::effective_bytes).
    pub buffer_bytes: u32,
    /// Number of datagrams that this socket dropped since it was opened; exact, wraps at 2³².
    pub drops: u32,
}

impl MemInfo {
    /// Reads the memory and drops of any socket.
    ///
    /// # Errors
    /// The kernel's error; `Unsupported` before Linux 4.12, which counts no drops.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        mem_info(socket.as_fd())
    }
}

/// Returns the discipline of the kernel's clock: whether a daemon reports it as synchronised, and
/// its maximum error, in microseconds.
pub(crate) fn clock_discipline() -> io::Result<(bool, u64)> {
    // SAFETY: an all-zero `timex` reads the state and changes nothing (`adjtimex(2)`).
    let mut state: libc::timex = unsafe { mem::zeroed() };
    // SAFETY: the call writes to `state` only, which exists until it returns.
    if unsafe { libc::adjtimex(&raw mut state) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((state.status & libc::STA_UNSYNC == 0, u64::try_from(state.maxerror).unwrap_or(0)))
}

/// Receives into `memory`, `slot_bytes` bytes for each of `slots`, without waiting.
///
/// # Panics
/// If there are more slots than a batch has, or less memory than they need.
pub(crate) fn receive_many(
    socket: BorrowedFd<'_>,
    memory: &mut [u8],
    slot_bytes: usize,
    slots: &mut [Slot],
) -> io::Result<usize> {
    assert!(slots.len() <= BATCH_DATAGRAMS && memory.len() >= slots.len() * slot_bytes);
    // SAFETY: all-zero bytes are a valid `iovec` and a valid `mmsghdr` (null pointers and zero lengths).
    let (mut pieces, mut headers): ([libc::iovec; BATCH_DATAGRAMS], [libc::mmsghdr; BATCH_DATAGRAMS]) =
        unsafe { (mem::zeroed(), mem::zeroed()) };
    let places = slots.iter_mut().zip(memory.chunks_exact_mut(slot_bytes));
    for ((slot, bytes), (piece, header)) in places.zip(pieces.iter_mut().zip(&mut headers)) {
        piece.iov_base = bytes.as_mut_ptr().cast();
        piece.iov_len = bytes.len();
        let header = &mut header.msg_hdr;
        header.msg_iov = piece;
        header.msg_iovlen = 1;
        header.msg_name = slot.name.as_mut_ptr().cast();
        header.msg_namelen = NAME_BYTES as libc::socklen_t;
        header.msg_control = slot.control.as_mut_ptr().cast();
        header.msg_controllen = CONTROL_BYTES as _;
    }
    let count = libc::c_uint::try_from(slots.len()).expect("a batch is small");
    // SAFETY: the first `count` headers point to one `iovec` each, to names and to control buffers, with
    // their true lengths; all of them are borrowed mutably or owned by this function until it returns.
    let received = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            count,
            libc::MSG_DONTWAIT as _,
            std::ptr::null_mut(),
        )
    };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    for (slot, header) in slots.iter_mut().zip(&headers[..received]) {
        slot.len = header.msg_len as usize;
        #[expect(clippy::unnecessary_cast, reason = "with musl it is a u32")]
        let control_len = header.msg_hdr.msg_controllen as usize;
        slot.control_len = control_len;
        slot.truncated = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
    }
    Ok(received)
}

/// Reads `SO_MEMINFO`.
pub(crate) fn mem_info(socket: BorrowedFd<'_>) -> io::Result<MemInfo> {
    const WORDS: usize = libc::SK_MEMINFO_DROPS as usize + 1;
    let mut words = [0_u32; WORDS];
    let mut size = size_of_val(&words) as libc::socklen_t;
    // SAFETY: `words` is `size` bytes that the kernel may write; any bytes are valid numbers.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            words.as_mut_ptr().cast(),
            &raw mut size,
        )
    };
    if outcome < 0 {
        return Err(io::Error::last_os_error());
    }
    if (size as usize) < size_of_val(&words) {
        // Before Linux 4.12 there was no drop counter; zero would be wrong.
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(MemInfo {
        queued_bytes: words[libc::SK_MEMINFO_RMEM_ALLOC as usize],
        buffer_bytes: words[libc::SK_MEMINFO_RCVBUF as usize],
        drops: words[libc::SK_MEMINFO_DROPS as usize],
    })
}

/// Reads the first words of `TCP_INFO`; returns how many bytes of them this kernel supports.
pub(crate) fn tcp_info(socket: BorrowedFd<'_>, words: &mut [u32]) -> io::Result<usize> {
    let mut size = libc::socklen_t::try_from(size_of_val(words)).expect("a structure is small");
    // SAFETY: `words` is `size` bytes that the kernel may write; any bytes are valid numbers.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            words.as_mut_ptr().cast(),
            &raw mut size,
        )
    };
    if outcome < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(size as usize)
}

/// Returns a request about the interface of a name, and a socket to send it by.
fn interface_request(name: &str) -> io::Result<(socket2::Socket, libc::ifreq)> {
    Ok((interface_socket()?, request_of(name)?))
}

/// Returns a socket for requests about interfaces of the network namespace in which it is opened.
fn interface_socket() -> io::Result<socket2::Socket> {
    socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)
}

fn request_of(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: all-zero bytes are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    Ok(request)
}

/// Reads the MTU of an interface of this thread's network namespace.
pub(crate) fn interface_mtu(name: &str) -> io::Result<u32> {
    let (socket, mut request) = interface_request(name)?;
    // SAFETY: SIOCGIFMTU takes an `ifreq` with a name that ends in zero, and writes into it.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: SIOCGIFMTU wrote `ifru_mtu`; any bytes are a valid `int`.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    u32::try_from(mtu).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Features of an interface: a name of 32 bytes for each feature, and a bit for each that is
/// active.
pub(crate) struct Features {
    pub(crate) names: Vec<u8>,
    pub(crate) active: Vec<u32>,
}

/// Size of the kernel's name of a feature (`ETH_GSTRING_LEN`).
pub(crate) const FEATURE_NAME_BYTES: usize = 32;

/// Reads the features of an interface of this thread's network namespace; it takes no privilege.
///
/// Source: `linux/ethtool.h`: `ETHTOOL_GSSET_INFO`, `ETHTOOL_GSTRINGS` and `ETHTOOL_GFEATURES`, in words of 32 bits.
pub(crate) fn interface_features(name: &str) -> io::Result<Features> {
    const GET_SET_INFO: u32 = 0x37;
    const GET_STRINGS: u32 = 0x1b;
    const GET_FEATURES: u32 = 0x3a;
    /// Number of the set of features among the sets of names (`ETH_SS_FEATURES`).
    const FEATURES: u32 = 4;
    /// Maximum number of features; Linux 6 has 64.
    const MOST: usize = 512;
    const WORDS_OF_NAME: usize = FEATURE_NAME_BYTES / 4;
    const WORDS_OF_BLOCK: usize = 4;
    // After the command: a reserved word, the mask of sets in two words, the answer.
    let mask = (1_u64 << FEATURES).to_ne_bytes();
    let [low, high] = [0, 4].map(|at| u32::from_ne_bytes(mask[at..at + 4].try_into().expect("four bytes")));
    let mut info = [GET_SET_INFO, 0, low, high, 0];
    // SAFETY: for one set in the mask the kernel writes one word behind it, which `info` has.
    unsafe { ethtool(name, &mut info) }?;
    let count = info[4] as usize;
    if count > MOST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut strings = vec![0; 3 + MOST * WORDS_OF_NAME];
    strings[..3].copy_from_slice(&[GET_STRINGS, FEATURES, info[4]]);
    // SAFETY: the kernel writes as many names as it just reported, which is a constant of it; there
    // is room for more.
    unsafe { ethtool(name, &mut strings) }?;
    let blocks = count.div_ceil(32);
    let mut features = vec![0; 2 + blocks * WORDS_OF_BLOCK];
    features[..2].copy_from_slice(&[GET_FEATURES, u32::try_from(blocks).expect("at most 16")]);
    // SAFETY: the kernel writes no more blocks than the second word says, for each of which there
    // is room.
    unsafe { ethtool(name, &mut features) }?;
    let names = strings[3..][..count * WORDS_OF_NAME].iter().flat_map(|word| word.to_ne_bytes()).collect();
    // A block has four words: available, requested, active, never changed.
    let active = features[2..].chunks_exact(WORDS_OF_BLOCK).map(|block| block[2]).collect();
    Ok(Features { names, active })
}

/// A structure of a card's settings, which the kernel fills with numbers of 32 bits (`linux/ethtool.h`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CardSettings {
    /// `struct ethtool_ringparam`.
    Rings,
    /// `struct ethtool_coalesce`.
    Coalescing,
    /// `struct ethtool_channels`.
    Channels,
    /// `struct ethtool_pauseparam`.
    Pause,
}

impl CardSettings {
    /// Returns the command that requests it, and its size in words, including the command.
    const fn command(self) -> (u32, usize) {
        match self {
            Self::Rings => (0x10, 9),
            Self::Coalescing => (0x0e, 23),
            Self::Channels => (0x3c, 9),
            Self::Pause => (0x12, 4),
        }
    }
}

/// Reads a card's settings, for an interface of this thread's network namespace; it takes no privilege. The first word is the command.
pub(crate) fn card_settings(name: &str, settings: CardSettings) -> io::Result<Vec<u32>> {
    let (command, count) = settings.command();
    let mut words = vec![0; count];
    words[0] = command;
    // SAFETY: each of these commands fills one structure of a fixed size, which is that of `words`.
    unsafe { ethtool(name, &mut words) }?;
    Ok(words)
}

/// Passes a request of `ethtool` to the kernel, which writes the answer into `words`.
///
/// # Safety
///
/// `words` must have room for all that the kernel writes in answer to the command in its first word.
unsafe fn ethtool(name: &str, words: &mut [u32]) -> io::Result<()> {
    let (socket, request) = interface_request(name)?;
    // SAFETY: guaranteed by the caller.
    unsafe { ethtool_by(&socket, request, words) }
}

/// Passes a request by a socket that is already open.
///
/// # Safety
///
/// As for [`ethtool`].
unsafe fn ethtool_by(
    socket: &socket2::Socket,
    mut request: libc::ifreq,
    words: &mut [u32],
) -> io::Result<()> {
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: SIOCETHTOOL takes an `ifreq` with a name that ends in zero and the address of a
    // command; room for the answer is guaranteed by the caller.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Returns the size of a memory page.
pub(crate) fn page_bytes() -> io::Result<u64> {
    // SAFETY: the call takes a number and returns one.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).map_err(|_| io::Error::last_os_error())
}

/// Puts the calling thread into `SCHED_FIFO`.
pub(crate) fn set_fifo(priority: u8) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid `sched_param`.
    let mut parameters: libc::sched_param = unsafe { mem::zeroed() };
    parameters.sched_priority = libc::c_int::from(priority);
    // SAFETY: 0 is the calling thread; the kernel reads `parameters` and keeps no reference to
    // them.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
