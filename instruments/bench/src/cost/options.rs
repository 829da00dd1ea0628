//! Options of a measurement of costs.

use std::net::IpAddr;
use std::time::Duration;

use clap::Args;

use crate::notation::{size, time};
use crate::options::{OptionsError, defaults, in_range};
use crate::throughput::{self, Protocol, Rate};

/// Time of a run before it is measured: start-up costs, above all memory that is touched for the first time,
/// are not costs of the data.
const BEGINNING: Duration = Duration::from_millis(300);

/// Options of a measurement of costs. The default is packets of 1,500 bytes and buffers of 1 MB, as in the paper, which
/// does not state its rate. Ten runs show the spread; the paper has a hundred.
#[derive(Args, Clone, PartialEq, Debug)]
#[group(skip)]
pub struct Options {
    /// Transports to compare.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "udp,tcp,stream")]
    pub transports: Vec<Protocol>,
    /// Rate of each flow.
    #[arg(short = 'b', long = "bitrate", value_name = "RATE", default_value = "100M")]
    pub rate: Rate,
    /// Bytes per datagram, or per write to TCP.
    // A stream's datagrams are as large.
    #[arg(short = 'l', long = "length", value_name = "SIZE", default_value = "1472", value_parser = size)]
    pub datagram_bytes: usize,
    /// Socket buffers.
    #[arg(short = 'w', long = "window", value_name = "SIZE", default_value = "1M", value_parser = size)]
    pub buffer_bytes: usize,
    /// Duration of a run: seconds, or a duration such as 500ms.
    #[arg(short = 't', long = "time", visible_alias = "duration", value_name = "TIME", default_value = "1", value_parser = time)]
    pub duration: Duration,
    /// Runs of each transport.
    #[arg(long = "repeat", alias = "runs", value_name = "COUNT", default_value = "10")]
    pub runs: u32,
    /// The processor of the client's threads.
    #[arg(skip)]
    pub client_cpu: Option<usize>,
    /// The processor of the server's threads.
    #[arg(skip)]
    pub server_cpu: Option<usize>,
    /// The client's address, which all traffic uses.
    #[arg(skip)]
    pub from: Option<IpAddr>,
}

impl Default for Options {
    fn default() -> Self {
        defaults()
    }
}

impl Options {
    /// Checks every option.
    ///
    /// # Errors
    /// [`OptionsError`] names the first invalid option.
    pub fn check(&self) -> Result<(), OptionsError> {
        in_range("-b in bits a second", self.bits_per_second(), 1..=u64::MAX.into())?;
        self.transports.iter().try_for_each(|transport| self.of(*transport).check())
    }

    /// Returns the payload bits per second of each flow.
    #[must_use]
    pub const fn bits_per_second(&self) -> u64 {
        self.rate.bits_per_second(self.datagram_bytes)
    }

    /// Returns the options of one transport's runs.
    #[must_use]
    pub fn of(&self, protocol: Protocol) -> throughput::Options {
        throughput::Options {
            protocol,
            rate: Some(Rate::Bits(self.bits_per_second())),
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
        assert!(refused(Options { rate: Rate::Bits(0), ..usual() }).contains("-b in bits a second"));
        assert!(
            refused(Options { datagram_bytes: 90, ..usual() }).contains("-l in bytes"),
            "less than a stream takes"
        );
        assert!(refused(Options { runs: 0, ..usual() }).contains("--repeat"));
    }
}
