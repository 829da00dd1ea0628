//! The options of a server and a client.

use std::net::IpAddr;
use std::time::Duration;

use super::parameters::{DEFAULT_BLOCK_BYTES, End, Protocol, Test};
use crate::options::OptionsError;

/// Default port of an iperf3 server.
pub const DEFAULT_PORT: u16 = 5_201;
/// Default rate of a stream over UDP. Units: bits per second.
const DEFAULT_UDP_RATE: u64 = 1_000_000;
/// Size of a datagram where the path MTU is not known.
const DEFAULT_DATAGRAM_BYTES: u32 = 1_460;

/// Options of a server.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Address to listen on; all addresses if none is given.
    pub bind: Option<IpAddr>,
    /// Port to listen on; 0 takes any that is free.
    pub port: u16,
    /// Length of an interval.
    pub interval: Duration,
    /// Number of tests to serve.
    pub repeat: Repeat,
}

/// Number of tests that a server serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repeat {
    /// One, however it ends (`-1`).
    Once,
    /// Until it is asked to end.
    Forever,
}

/// Address family that a client uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Family {
    /// The first address.
    #[default]
    Any,
    /// The first IPv4 address (`-4`).
    V4,
    /// The first IPv6 address (`-6`).
    V6,
}

/// The options of a client.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The server's name or address.
    pub host: String,
    /// Port of the server.
    pub port: u16,
    /// Address family of the server.
    pub family: Family,
    /// The address from which to send.
    pub bind: Option<IpAddr>,
    /// The port from which the first stream is sent.
    pub client_port: Option<u16>,
    /// Length of an interval.
    pub interval: Duration,
    /// The test, apart from its block size and rate.
    pub test: Test,
    /// Bytes of a block or datagram; `None` takes 128 KiB over TCP, and the path's maximum over UDP.
    pub block_bytes: Option<usize>,
    /// The rate of each stream, 0 for none; `None` takes 1 Mbit/s over UDP and none over TCP.
    pub rate_bits_per_s: Option<u64>,
}

/// Checks the length of an interval.
pub(super) fn check_interval(interval: Duration) -> Result<(), OptionsError> {
    let range = Duration::from_millis(100)..=Duration::from_secs(60);
    if range.contains(&interval) { Ok(()) } else { Err(OptionsError::Interval(interval)) }
}

impl ClientOptions {
    /// Checks everything that can be checked before there is a connection.
    ///
    /// # Errors
    /// [`OptionsError`] names the invalid option.
    pub fn check(&self) -> Result<(), OptionsError> {
        check_interval(self.interval)?;
        check_whole("-O", self.test.omit)?;
        if let End::Time(time) = self.test.end {
            check_whole("-t", time)?;
        }
        self.test(None).check()
    }

    /// Returns the test, given the maximum segment size of the control connection, from which the datagram size
    /// follows.
    pub(super) fn test(&self, control_mss: Option<u32>) -> Test {
        let datagram = control_mss.unwrap_or(DEFAULT_DATAGRAM_BYTES).min(u32::from(u16::MAX) - 28) as usize;
        let (block_bytes, rate) = match self.test.protocol {
            Protocol::Tcp => (DEFAULT_BLOCK_BYTES, None),
            Protocol::Udp => (datagram, Some(DEFAULT_UDP_RATE)),
        };
        Test {
            block_bytes: self.block_bytes.unwrap_or(block_bytes),
            rate_bits_per_s: self.rate_bits_per_s.or(rate).filter(|rate| *rate > 0),
            ..self.test.clone()
        }
    }
}

fn check_whole(name: &'static str, value: Duration) -> Result<(), OptionsError> {
    if value.subsec_nanos() == 0 { Ok(()) } else { Err(OptionsError::NotWhole { name, value }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_out_of_range_are_named() {
        let error = |change: fn(&mut ClientOptions)| {
            let mut options = ClientOptions {
                host: "localhost".to_owned(),
                port: DEFAULT_PORT,
                family: Family::Any,
                bind: None,
                client_port: None,
                interval: Duration::from_secs(1),
                test: Test::default(),
                block_bytes: None,
                rate_bits_per_s: None,
            };
            change(&mut options);
            options.check().map_err(|error| error.to_string())
        };
        assert_eq!(error(|_| {}), Ok(()));
        assert!(
            error(|it| it.test.parallel = 129).unwrap_err().contains("-P must be from 1 to 128, not 129")
        );
        assert!(error(|it| it.block_bytes = Some(0)).unwrap_err().contains("-l must be from 1 to"));
        assert!(
            error(|it| it.test.omit = Duration::from_millis(1_500)).unwrap_err().contains("whole number")
        );
        assert!(error(|it| it.test.end = End::Bytes(0)).unwrap_err().contains("-n must be from 1 to"));
        assert!(error(|it| it.interval = Duration::from_millis(99)).is_err());
        assert_eq!(error(|it| it.interval = Duration::from_millis(100)), Ok(()));
    }
}
