//! The four system calls that no safe crate offers as they are needed here; the only unsafe code.
//!
//! `recvmmsg`: nix's keeps the control length that the kernel wrote, so that from the second call on control
//! messages are cut off. `SO_MEMINFO`, `SIOCGIFMTU` and `sched_setscheduler`: in no safe crate.
#![expect(unsafe_code, reason = "system calls that take pointers")]

pub(crate) mod tcp;

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc;

use crate::batch::BATCH_DATAGRAMS;
use crate::control::{CONTROL_BYTES, NAME_BYTES};

/// What the kernel fills in for one datagram, beside its bytes.
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

/// A socket's memory and drops, from `SO_MEMINFO`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemInfo {
    /// What lies in the receive queue, with the kernel's overhead.
    pub queued_bytes: u32,
    /// The receive buffer, as in [`Buffer::effective_bytes`](crate::Buffer::effective_bytes).
    pub buffer_bytes: u32,
    /// How many datagrams this socket dropped since it was opened; exact, wraps at 2³².
    pub drops: u32,
}

/// Receives into `memory`, one piece of `slot_bytes` for each of `slots`, without waiting.
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
        // Before Linux 4.12 there was no drop counter; zero would be a lie.
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(MemInfo {
        queued_bytes: words[libc::SK_MEMINFO_RMEM_ALLOC as usize],
        buffer_bytes: words[libc::SK_MEMINFO_RCVBUF as usize],
        drops: words[libc::SK_MEMINFO_DROPS as usize],
    })
}

/// Reads the MTU of an interface of this thread's network namespace.
pub(crate) fn interface_mtu(name: &str) -> io::Result<u32> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)?;
    // SAFETY: all-zero bytes are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    // SAFETY: SIOCGIFMTU takes an `ifreq` with a name that ends in zero, and writes into it.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: SIOCGIFMTU wrote `ifru_mtu`; whatever the bytes, they are a valid `int`.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    u32::try_from(mtu).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Puts the calling thread into `SCHED_FIFO`.
pub(crate) fn set_fifo(priority: u8) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid `sched_param`.
    let mut parameters: libc::sched_param = unsafe { mem::zeroed() };
    parameters.sched_priority = libc::c_int::from(priority);
    // SAFETY: 0 is the calling thread; the kernel reads `parameters` and keeps nothing of them.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
