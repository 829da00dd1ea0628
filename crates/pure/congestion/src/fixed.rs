//! A constant rate, for ways that nobody else uses.

use crate::{Acked, CongestionControl, Environment, Lost, OptionError, Options, Policy};

/// Sends at one rate whatever happens. It never gives way: use it only where the way is yours.
#[derive(Clone, Debug)]
pub struct Fixed {
    rate_bits_per_s: f64,
    packets_per_s: f64,
}

impl Fixed {
    /// Makes a control of a rate in bits per second on the way, IP and UDP headers included.
    #[must_use]
    pub const fn new(rate_bits_per_s: f64) -> Self {
        // Until the connection tells its packets' size, nothing has to leave in a hurry.
        Self { rate_bits_per_s, packets_per_s: 1_000.0 }
    }

    /// Makes a control from the option `rate`.
    ///
    /// # Errors
    /// If the rate is missing or none, or there is another option.
    pub fn from_options(mut options: Options) -> Result<Self, OptionError> {
        let rate = options.rate("rate")?;
        options.finish()?;
        Ok(Self::new(rate))
    }
}

impl CongestionControl for Fixed {
    fn policy(&self) -> Policy {
        Policy::rate(self.packets_per_s)
    }

    fn on_start(&mut self, environment: &mut Environment<'_>) {
        let packet_bits = f64::from(environment.flight.packet_bytes) * 8.0;
        self.packets_per_s = self.rate_bits_per_s / packet_bits;
    }

    fn on_ack(&mut self, _: &mut Environment<'_>, _: &Acked) {}

    fn on_loss(&mut self, _: &mut Environment<'_>, _: &Lost<'_>) {}
}
