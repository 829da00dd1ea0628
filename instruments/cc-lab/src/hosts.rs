//! Behaviour of the hosts at the ends of a path.

use core::time::Duration;

use sim::{Clock, Costs, Host, Lateness};

/// Behaviour of the hosts at both ends.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Hosts {
    /// Hosts act at once, and their clocks agree.
    #[default]
    Ideal,
    /// Hosts take time, wake up late, stall now and then, and their clocks disagree: a busy machine of two cores.
    ///
    /// Source: this project's own measurements; `docs/guide/congestion-lab.md`, "Limits".
    Real,
}

impl Hosts {
    /// Returns the host of a sender.
    pub(crate) fn sender(self) -> Host {
        match self {
            Self::Ideal => Host::ideal(),
            Self::Real => real(),
        }
    }

    /// Returns the host of a receiver.
    pub(crate) fn receiver(self) -> Host {
        match self {
            Self::Ideal => Host::ideal(),
            Self::Real => {
                let clock = Clock { offset: Duration::from_secs(5), skew_ppb: 50_000 };
                real().receive_buffer(RECEIVE_BUFFER_BYTES).clock(clock)
            }
        }
    }
}

/// Receive buffer that `recv` asks the kernel for.
const RECEIVE_BUFFER_BYTES: u64 = 8 << 20;

fn real() -> Host {
    let costs = Costs {
        turn: Duration::from_nanos(1_000),
        received: Duration::from_nanos(300),
        send_call: Duration::from_nanos(2_000),
        sent: Duration::from_nanos(250),
    };
    let lateness =
        Lateness { usual: Duration::from_micros(6), rare: 0.001, most: Duration::from_micros(1_000) };
    let stalls = Duration::from_millis(1)..Duration::from_millis(5);
    Host::ideal().costs(costs).wakes_late(lateness).stalls_now_and_then(Duration::from_secs(2), stalls)
}
