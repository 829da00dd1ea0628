//! Waits until every processor has processed its backlog.
//!
//! Packets from a virtual device wait in the backlog of the processor that sent them, and on a busy processor its
//! softirq may be late by many milliseconds. A marker that was sent from another processor, or that a timer
//! released from a queue there, overtakes those packets: a count of missing datagrams would then include late ones.
//! A datagram over the loopback device, sent from a processor, arrives after everything in that processor's
//! backlog.

use std::net::UdpSocket;
use std::time::Duration;

use anyhow::{anyhow, bail};
use rustix::thread::{CpuSet, sched_getaffinity};

/// From the sender to the bridge, and from the bridge to the reader: packets from one backlog may enter another.
const HOPS: usize = 2;
/// Number of retransmissions of a datagram: a backlog is processed within seconds.
const ATTEMPTS: u64 = 2_000;
const PATIENCE: Duration = Duration::from_millis(10);

/// Waits until the packets between sender and reader have arrived or are lost; returns the maximum number of its
/// own lost datagrams.
pub(crate) fn take_backlogs() -> anyhow::Result<u64> {
    // The mask of the main thread: the calling thread may be pinned.
    let allowed = sched_getaffinity(Some(rustix::process::getpid()))?;
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    std::thread::scope(|threads| {
        let thread = threads.spawn(|| {
            let socket = UdpSocket::bind("127.0.0.1:0")?;
            socket.connect(socket.local_addr()?)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            let way = (0..HOPS).flat_map(|_| &processors).enumerate();
            way.map(|(step, processor)| take_backlog(&socket, *processor, step)).sum()
        });
        thread.join().map_err(|_| anyhow!("a thread of the scene panicked"))?
    })
}

/// Returns once this processor's backlog is processed; the calling thread is pinned to it.
fn take_backlog(socket: &UdpSocket, processor: usize, step: usize) -> anyhow::Result<u64> {
    sys::scheduling::pin_to_cpu(processor)?;
    // A retransmitted datagram may arrive in the next step.
    let sent = step.to_le_bytes();
    let mut bytes = sent;
    for lost in 0..ATTEMPTS {
        socket.send(&sent)?;
        while socket.recv(&mut bytes).is_ok() {
            if bytes == sent {
                return Ok(lost);
            }
        }
    }
    bail!("processor {processor} does not process its backlog");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_pinned_passes_every_processor_too() {
        let lost = std::thread::scope(|threads| {
            let pinned = threads.spawn(|| {
                let allowed = sched_getaffinity(None).unwrap();
                let first = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).unwrap();
                sys::scheduling::pin_to_cpu(first).unwrap();
                take_backlogs()
            });
            pinned.join().unwrap()
        });
        assert!(lost.unwrap() < ATTEMPTS);
    }
}
