//! `TCP_INFO`, which no safe crate reads.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc;

/// Reads what the kernel knows of a TCP connection; what an old kernel does not know is zero.
pub(crate) fn tcp_info(socket: BorrowedFd<'_>) -> io::Result<libc::tcp_info> {
    // SAFETY: all-zero bytes are a valid `tcp_info`, which holds nothing but numbers.
    let mut info: libc::tcp_info = unsafe { mem::zeroed() };
    let mut size = size_of_val(&info) as libc::socklen_t;
    // SAFETY: `info` is `size` bytes that the kernel may write; any bytes are valid numbers.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut size,
        )
    };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(info) }
}
