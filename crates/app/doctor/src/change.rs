//! Changes of this host, and their undo.

mod error;
mod queues;
mod threads;

use std::os::fd::OwnedFd;

use diagnose::Change;
use sys::{Buffer, MemInfo, host, process};

pub use error::ChangeError;

/// Makes a change.
///
/// # Errors
/// [`ChangeError`]; then nothing has changed.
pub(crate) fn apply(change: &Change) -> Result<(), ChangeError> {
    match change {
        Change::Sysctl { name, value, before } => set_sysctl(name, *value, *before),
        Change::SysctlNumbers { name, values, before } => set_numbers(name, values, before),
        Change::ReceiveBuffer { cookie, pid, asked_bytes, before_bytes, .. } => {
            let socket = process::open_socket(*pid, *cookie)?;
            let granted = set_buffer(&socket, *asked_bytes, *before_bytes)?;
            if granted < *asked_bytes {
                set_buffer(&socket, *before_bytes, granted)?;
                return Err(ChangeError::Clamped { asked: *asked_bytes, granted });
            }
            Ok(())
        }
        Change::QueueLimit { device, handle, parent, limit, before, .. } => {
            queues::set_limit(&queues::At { device, handle: *handle, parent: *parent }, *limit, *before)
        }
        Change::TransmitQueue { device, packets, before } => {
            queues::set_transmit_queue(device, *packets, *before)
        }
        Change::Niceness { pid, started, nice, before } => {
            threads::set(threads::Process { pid: *pid, started: *started }, *nice, before)
        }
        Change::Priority { .. } => Err(ChangeError::ByHand(change.command())),
    }
}

/// Undoes a change.
///
/// # Errors
/// [`ChangeError`]; [`ChangeError::Gone`] if the subject of the change no longer exists.
pub(crate) fn take_back(change: &Change) -> Result<(), ChangeError> {
    match change {
        Change::Sysctl { name, value, before } => {
            let before = before
                .ok_or_else(|| ChangeError::ByHand(format!("the previous value of {name} is unknown")))?;
            set_sysctl(name, before, Some(*value))
        }
        Change::SysctlNumbers { name, values, before } => set_numbers(name, before, values),
        Change::ReceiveBuffer { cookie, pid, asked_bytes, before_bytes, .. } => {
            let socket = process::open_socket(*pid, *cookie)?;
            set_buffer(&socket, *before_bytes, *asked_bytes).map(|_| ())
        }
        Change::QueueLimit { device, handle, parent, limit, before, .. } => {
            queues::set_limit(&queues::At { device, handle: *handle, parent: *parent }, *before, *limit)
        }
        Change::TransmitQueue { device, packets, before } => {
            queues::set_transmit_queue(device, *before, *packets)
        }
        Change::Niceness { pid, started, nice, before } => {
            threads::take_back(threads::Process { pid: *pid, started: *started }, *nice, before)
        }
        Change::Priority { .. } => Err(ChangeError::ByHand(change.undo().unwrap_or_default())),
    }
}

/// Sets a number if it still has the value that was left.
fn set_sysctl(name: &str, value: u64, expected: Option<u64>) -> Result<(), ChangeError> {
    let now = host::sysctl(name)?;
    if now == value {
        return Ok(());
    }
    if let Some(expected) = expected.filter(|expected| *expected != now) {
        return Err(ChangeError::since(name, now, expected));
    }
    Ok(host::set_sysctl(name, value)?)
}

/// Sets numbers if they still have the values that were left.
fn set_numbers(name: &str, values: &[u64], expected: &[u64]) -> Result<(), ChangeError> {
    let now = host::sysctl_numbers(name)?;
    if now == values {
        return Ok(());
    }
    if now.len() != expected.len() {
        return Err(ChangeError::since(&format!("the count of {name}"), now.len(), expected.len()));
    }
    match now.iter().zip(expected).find(|(now, expected)| now != expected) {
        Some((now, expected)) => Err(ChangeError::since(name, *now, *expected)),
        None => Ok(host::set_sysctl_numbers(name, values)?),
    }
}

/// Sets a buffer if it still has the size that was left; returns the granted size, as it would be requested.
fn set_buffer(socket: &OwnedFd, asked_bytes: u64, expected: u64) -> Result<u64, ChangeError> {
    let now = u64::from(MemInfo::of(socket)?.buffer_bytes) / 2;
    if now == asked_bytes {
        return Ok(now);
    }
    if now != expected {
        return Err(ChangeError::since("the receive buffer", now, expected));
    }
    let asked = usize::try_from(asked_bytes).unwrap_or(usize::MAX);
    Ok(Buffer::ask_receive(socket, asked)?.effective_bytes / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn a_sockets_buffer_grows_and_is_what_it_was_again() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let own = || MemInfo::of(&socket).unwrap().buffer_bytes;
        let local = socket.local_addr().unwrap();
        let listed = sys::udp_sockets().unwrap().into_iter().find(|it| it.local == local).unwrap();
        let before = own();
        let change = |asked_bytes| Change::ReceiveBuffer {
            cookie: listed.cookie,
            local,
            pid: std::process::id(),
            asked_bytes,
            before_bytes: u64::from(before) / 2,
        };
        let larger = change(150_000);
        apply(&larger).unwrap();
        assert_eq!(own(), 300_000);
        take_back(&larger).unwrap();
        assert_eq!(own(), before);
        // The program itself requests another size.
        Buffer::ask_receive(&socket, 50_000).unwrap();
        assert!(matches!(take_back(&larger), Err(ChangeError::ChangedSince { now: 50_000, .. })));
        assert_eq!(own(), 100_000);
        drop(socket);
        // A child that another test starts has a copy until it executes its program.
        let is_gone = || matches!(take_back(&larger), Err(ChangeError::Gone));
        support::wait_until("the end of the socket", || is_gone().then_some(()));
    }

    #[test]
    fn a_number_that_somebody_else_has_changed_is_left_alone() {
        let name = "net.core.rmem_max".to_owned();
        let now = host::sysctl(&name).unwrap();
        let change = Change::Sysctl { name, value: now + 2, before: Some(now + 1) };
        assert!(matches!(apply(&change), Err(ChangeError::ChangedSince { .. })));
        assert!(matches!(take_back(&change), Err(ChangeError::ChangedSince { .. })));
        let name = "net.ipv4.tcp_rmem".to_owned();
        let now = host::sysctl_numbers(&name).unwrap();
        let other: Vec<u64> = now.iter().map(|number| number + 1).collect();
        for before in [other.clone(), now[..2].to_vec()] {
            let values = other.iter().map(|number| number + 1).collect();
            let change = Change::SysctlNumbers { name: name.clone(), values, before };
            assert!(matches!(apply(&change), Err(ChangeError::ChangedSince { .. })));
            assert!(matches!(take_back(&change), Err(ChangeError::ChangedSince { .. })));
        }
        apply(&Change::SysctlNumbers { name: name.clone(), values: now.clone(), before: other }).unwrap();
        assert_eq!(host::sysctl_numbers(&name).unwrap(), now);
    }
}
