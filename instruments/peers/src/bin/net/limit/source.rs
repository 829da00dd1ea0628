//! Sending side of the limit.

use std::array;
use std::io::IoSlice;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use nix::sys::socket::{MsgFlags, MultiHeaders, sendmmsg};
use peers::process::{end_with_leader, tell};
use peers::{Whose, cpu_seconds};
use sys::clock;

use super::socket::sending;
use super::train::{end, write_numbers, write_stamp};
use super::{Calls, Line, Order, Sent, Waiting};

/// Maximum number of messages per call.
const MAX_BATCH: usize = 64;
/// Maximum number of trains per call: trains are large, and more of them per call save nothing.
const TRAINS_PER_CALL: usize = 8;
/// Maximum burst of a paced run, as for a stream.
const PACED_BATCH: usize = 16;
/// Interval between copies of the end marker.
const END_PAUSE: Duration = Duration::from_millis(2);

struct Source {
    socket: UdpSocket,
    line: Line,
    /// Messages per call.
    batch: usize,
    bytes: Vec<u8>,
    headers: MultiHeaders<()>,
    sent: u64,
}

/// Sends as ordered, then repeats the end marker until this process is ended.
pub(crate) fn source(order: Order) -> Result<()> {
    let mut source = Source::open(&order)?;
    clock::lower_timer_slack()?;
    let (began, cpu) = (Instant::now(), cpu_seconds(Whose::Thread));
    source.send_for(began, &order)?;
    let (seconds, cpu_s) = (began.elapsed().as_secs_f64(), cpu_seconds(Whose::Thread) - cpu);
    tell("sent", &Sent { datagrams: source.sent, seconds, cpu_s })?;
    end_with_leader();
    // A socket without trains: with segments of one byte, it would cut the end marker too.
    let end_socket = sending(&Line { calls: Calls::Plain, ..order.line })?;
    for turn in 1.. {
        end_socket.send(&end(source.sent, turn))?;
        std::thread::sleep(END_PAUSE);
    }
    Ok(())
}

impl Source {
    fn open(order: &Order) -> Result<Self> {
        let line = order.line.clone();
        let batch = match (line.calls, order.datagrams_per_second) {
            (Calls::Plain, _) | (Calls::Trains(_), Some(_)) => 1,
            (Calls::Batched, None) => MAX_BATCH,
            (Calls::Batched, Some(_)) => PACED_BATCH,
            (Calls::Trains(_), None) => TRAINS_PER_CALL,
        };
        let bytes = vec![7; batch * line.message_bytes()];
        let headers = MultiHeaders::preallocate(batch, None);
        Ok(Self { socket: sending(&line)?, line, batch, bytes, headers, sent: 0 })
    }

    fn send_for(&mut self, began: Instant, order: &Order) -> Result<()> {
        let duration = Duration::from_secs_f64(order.seconds);
        while began.elapsed() < duration {
            if let Some(datagrams_per_second) = order.datagrams_per_second {
                self.wait_until_due(began, datagrams_per_second, order.waiting);
            }
            write_numbers(&mut self.bytes, self.line.datagram_bytes, self.sent);
            if self.line.is_stamped {
                write_stamp(&mut self.bytes);
            }
            let messages =
                if self.line.calls == Calls::Plain { self.send_one()? } else { self.send_batch()? };
            self.sent += (messages * self.line.datagrams_per_message()) as u64;
        }
        Ok(())
    }

    /// Spinning is the most precise way, where this processor has nothing else to do.
    fn wait_until_due(&self, began: Instant, datagrams_per_second: f64, waiting: Waiting) {
        let due = began + Duration::from_secs_f64(self.sent as f64 / datagrams_per_second);
        if waiting == Waiting::Blocking {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        while Instant::now() < due {
            std::hint::spin_loop();
        }
    }

    fn send_one(&self) -> Result<usize> {
        let size_bytes = self.socket.send(&self.bytes)?;
        ensure!(size_bytes == self.bytes.len(), "only {size_bytes} bytes of a datagram were sent");
        Ok(1)
    }

    /// Sends the batch; returns how many of its messages the socket accepted.
    fn send_batch(&mut self) -> Result<usize> {
        let mut messages = self.bytes.chunks_exact(self.line.message_bytes());
        let slices: [_; MAX_BATCH] = array::from_fn(|_| [IoSlice::new(messages.next().unwrap_or_default())]);
        let taken = sendmmsg(
            self.socket.as_raw_fd(),
            &mut self.headers,
            &slices[..self.batch],
            [None; MAX_BATCH],
            [],
            MsgFlags::empty(),
        )?;
        Ok(taken.count())
    }
}
