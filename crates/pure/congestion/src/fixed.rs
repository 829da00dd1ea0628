//! A constant rate, for paths without other traffic.

use crate::options::FromOptions;
use crate::{Acked, CongestionControl, Environment, Lost, OptionError, Options, Policy, Resized};

/// Sends at one rate regardless of losses. It never yields: use it only on a path of your own.
#[derive(Clone, Debug)]
pub(crate) struct Fixed {
    rate_bits_per_s: f64,
    packets_per_s: f64,
}

impl Fixed {
    /// Creates a control of a rate in bits per second on the path, IP and UDP headers included.
    const fn new(rate_bits_per_s: f64) -> Self {
        // Until the connection reports its packet size, a moderate rate suffices.
        Self { rate_bits_per_s, packets_per_s: 1_000.0 }
    }
}

impl FromOptions for Fixed {
    fn from_options(options: &mut Options) -> Result<Self, OptionError> {
        let rate = options.rate("rate")?;
        Ok(Self::new(rate))
    }
}

impl CongestionControl for Fixed {
    fn policy(&self) -> Policy {
        Policy::rate(self.packets_per_s)
    }

    fn on_start(&mut self, environment: &mut Environment<'_>) {
        self.packets_per_s = self.rate_bits_per_s / environment.flight.packet_bits();
    }

    fn on_packet_size(&mut self, environment: &mut Environment<'_>, _: &Resized) {
        self.on_start(environment);
    }

    fn on_ack(&mut self, _: &mut Environment<'_>, _: &Acked) {}

    fn on_loss(&mut self, _: &mut Environment<'_>, _: &Lost<'_>) {}
}
