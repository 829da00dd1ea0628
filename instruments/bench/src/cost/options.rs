//! Options of a measurement of costs.

use std::net::IpAddr;
use std::time::Duration;

use crate::options::{OptionsError, in_range};
use crate::throughput::{self, Protocol, Rate};

/// Time of a run before it is measured: start-up costs, above all memory that is touched for the first time,
/// are not costs of the data.
const BEGINNING: Duration = Duration::from_millis(300);

/// Options of a measurement of costs.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// The transports to compare.
    pub transports: Vec<Protocol>,
    /// Rate of the data. Units: payload bits per second.
    pub bits_per_second: u64,
    /// The payload of a UDP datagram; the bytes that one call hands to TCP. A stream's datagrams are as large.
    pub datagram_bytes: usize,
    /// Size of the socket buffers.
    pub buffer_bytes: usize,
    /// Duration of a run.
    pub duration: Duration,
    /// Number of runs of each transport.
    pub runs: u32,
    /// The processor of the client's threads.
    pub client_cpu: Option<usize>,
    /// The processor of the server's threads.
    pub server_cpu: Option<usize>,
    /// The client's address, which all traffic uses.
    pub from: Option<IpAddr>,
}

impl Default for Options {
    /// Packets of 1,500 bytes and buffers of 1 MB, as in the paper; it does not state its rate. Ten runs show
    /// the spread; the paper has a hundred.
    fn default() -> Self {
        Self {
            transports: vec![Protocol::Udp, Protocol::Tcp, Protocol::Stream],
            bits_per_second: 100_000_000,
            datagram_bytes: 1_472,
            buffer_bytes: 1 << 20,
            duration: Duration::from_secs(1),
            runs: 10,
            client_cpu: None,
            server_cpu: None,
            from: None,
        }
    }
}

impl Options {
    /// Checks every option.
    ///
    /// # Errors
    /// [`OptionsError`] names the first invalid option.
    pub fn check(&self) -> Result<(), OptionsError> {
        in_range("-b in bits a second", self.bits_per_second, 1..=u64::MAX.into())?;
        self.transports.iter().try_for_each(|transport| self.of(*transport).check())
    }

    /// Returns the options of one transport's runs.
    #[must_use]
    pub fn of(&self, protocol: Protocol) -> throughput::Options {
        throughput::Options {
            protocol,
            rate: Some(Rate::Bits(self.bits_per_second)),
            payload_bytes: Some(throughput::payload_of_datagram(protocol, self.datagram_bytes)),
            buffer_bytes: Some(self.buffer_bytes),
            duration: self.duration,
            omit: BEGINNING,
            // No reports meanwhile: they cost too.
            interval: BEGINNING + self.duration,
            repeats: self.runs,
            client_cpu: self.client_cpu,
            server_cpu: self.server_cpu,
            from: self.from,
            ..throughput::Options::default()
        }
    }

    /// Returns the minimum duration of the whole measurement.
    #[must_use]
    pub fn shortest(&self) -> Duration {
        (BEGINNING + self.duration) * self.runs * u32::try_from(self.transports.len()).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_transport_sends_packets_of_one_size_at_one_rate() {
        let options = Options::default();
        let sizes = [Protocol::Udp, Protocol::Tcp, Protocol::Stream].map(|it| options.of(it).payload_bytes);
        assert_eq!(sizes, [Some(1_472), Some(1_472), Some(1_392)]);
        assert_eq!(options.check(), Ok(()));
        assert_eq!(options.shortest(), Duration::from_secs(39));
    }

    #[test]
    fn what_cannot_be_is_refused_before_anything_is_measured() {
        let refused = |options: Options| options.check().unwrap_err().to_string();
        let usual = Options::default;
        assert!(refused(Options { bits_per_second: 0, ..usual() }).contains("-b in bits a second"));
        assert!(
            refused(Options { datagram_bytes: 90, ..usual() }).contains("-l in bytes"),
            "less than a stream takes"
        );
        assert!(refused(Options { runs: 0, ..usual() }).contains("--repeat"));
    }
}
