//! A socket that sends datagrams, singly, in batches or in trains.

use std::net::SocketAddr;

use sys::{Buffer, Interest, Loopback, OpenError, Poller, SendOptions, SendSocket, SendTechniques};
use units::Instant;

use super::{Outcomes, SYSTEM_BUFFER_BYTES};

/// The poller's only descriptor.
const SOCKET: u64 = 0;

/// Returns options to send to `destination` in batches, with the system's buffer.
pub fn to(destination: SocketAddr) -> SendOptions {
    SendOptions {
        destination,
        interface: None,
        ttl: 1,
        loopback: Loopback::On,
        buffer_bytes: SYSTEM_BUFFER_BYTES,
        techniques: SendTechniques { gso: false, ..SendTechniques::default() },
    }
}

/// A sending socket that can be waited for.
pub struct Sender {
    /// The socket, for calls that this type does not wrap.
    pub socket: SendSocket,
    poller: Poller,
    /// Reason why datagrams that were to leave in trains do not.
    pub without_trains: Option<String>,
}

impl Sender {
    /// Opens the socket.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(options: &SendOptions) -> Result<Self, OpenError> {
        let socket = SendSocket::open(options)?;
        let (step, address) = ("wait for the socket", options.destination);
        let failed = |source| OpenError::System { step, address, source };
        let poller = Poller::new().map_err(failed)?;
        poller.add(&socket, SOCKET, Interest::Write).map_err(failed)?;
        let is_without = options.techniques.gso && !socket.techniques().gso;
        let without_trains = is_without.then(|| "this kernel has no UDP_SEGMENT (Linux 4.18)".to_owned());
        Ok(Self { socket, poller, without_trains })
    }

    /// Sends `count` datagrams of `payload_bytes` each, one after the other in memory, and counts their outcomes; `full`
    /// gets the index of each that found no room.
    pub fn send(
        &mut self,
        memory: &[u8],
        count: usize,
        payload_bytes: usize,
        to: SocketAddr,
        outcomes: &mut Outcomes,
        mut full: impl FnMut(usize),
    ) {
        // A train of empty datagrams has no segment size.
        if !self.socket.techniques().gso || payload_bytes == 0 {
            let datagrams: Vec<&[u8]> =
                (0..count).map(|index| &memory[index * payload_bytes..][..payload_bytes]).collect();
            return self.send_batch(&datagrams, to, outcomes, full);
        }
        for (index, outcome) in self.socket.send_train(memory, payload_bytes, to).iter().enumerate() {
            if !outcomes.take(*outcome, payload_bytes) {
                full(index);
            }
        }
        if let Some(error) = self.socket.take_end_of_trains() {
            self.without_trains = Some(error.to_string());
        }
    }

    /// Sends datagrams and counts their outcomes; `full` gets the index of each that found no room.
    pub fn send_batch(
        &mut self,
        datagrams: &[&[u8]],
        to: SocketAddr,
        outcomes: &mut Outcomes,
        mut full: impl FnMut(usize),
    ) {
        let all = self.socket.send_batch(datagrams, to).iter().zip(datagrams);
        for (index, (outcome, datagram)) in all.enumerate() {
            if !outcomes.take(*outcome, datagram.len()) {
                full(index);
            }
        }
    }

    /// Waits for room, until the time limit.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn wait_for_room(&mut self, until: Instant) -> std::io::Result<()> {
        self.poller.wait(Some(until))?;
        // Reports of ICMP would keep the poller awake; refusals are counted where they occur.
        self.socket.drain_error_queue(&mut Vec::new())
    }

    /// Returns the buffer that the kernel granted.
    pub fn buffer(&self) -> Buffer {
        self.socket.granted_buffer()
    }

    /// Returns a note if datagrams that were to leave in trains do not.
    pub fn note_without_trains(&self) -> Option<String> {
        self.without_trains.as_ref().map(|why| {
            format!("datagrams left one by one although --gso was asked for: {why}\nsee `ethtool -k`, or leave --gso out")
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn empty_datagrams_are_sent_too() {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_read_timeout(Some(support::WATCHDOG)).unwrap();
        let address = receiver.local_addr().unwrap();
        let (mut sender, mut outcomes) = (Sender::open(&to(address)).unwrap(), Outcomes::default());
        sender.send(&[], 2, 0, address, &mut outcomes, |_| panic!("no room for two datagrams"));
        sender.send(&[7, 8], 2, 1, address, &mut outcomes, |_| panic!("no room for two datagrams"));
        let mut bytes = [0; 8];
        let lengths: Vec<usize> = (0..4).map(|_| receiver.recv(&mut bytes).unwrap()).collect();
        assert_eq!((lengths, outcomes.taken), (vec![0, 0, 1, 1], 4));
        let techniques = SendTechniques { gso: true, ..SendTechniques::default() };
        let mut in_trains = Sender::open(&SendOptions { techniques, ..to(address) }).unwrap();
        in_trains.send(&[], 2, 0, address, &mut outcomes, |_| panic!("no room for two datagrams"));
        assert_eq!(outcomes.taken, 6);
    }
}
