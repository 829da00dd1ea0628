//! The costs that Gu & Grossman 2005 measured (tables 1 and 2): means of a hundred runs, packets of 1,500
//! bytes, buffers of 1 MB.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A host of the paper.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceHost {
    /// Name in the paper.
    pub name: String,
    /// Processors, interface, system.
    pub machine: String,
    /// Costs over UDP.
    pub udp: SourceCosts,
    /// Costs over TCP.
    pub tcp: SourceCosts,
}

/// Cost of a transport on a host of the paper.
#[derive(Clone, Copy, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceCosts {
    /// Processor frequency per megabit per second sent.
    pub send_mhz_per_mbit: f64,
    /// Processor frequency per megabit per second received.
    pub receive_mhz_per_mbit: f64,
    /// The delay in the end systems.
    pub delay_ms: f64,
}

/// Returns the hosts of the paper.
#[must_use]
pub fn hosts() -> Vec<SourceHost> {
    let costs = |[send_mhz_per_mbit, receive_mhz_per_mbit, delay_ms]: [f64; 3]| SourceCosts {
        send_mhz_per_mbit,
        receive_mhz_per_mbit,
        delay_ms,
    };
    let host = |name: &str, machine: &str, udp, tcp| SourceHost {
        name: name.to_owned(),
        machine: machine.to_owned(),
        udp: costs(udp),
        tcp: costs(tcp),
    };
    vec![
        host("onno", "2 Itanium2 1.5 GHz, 10 GbE, Linux 2.6.0", [0.22, 0.35, 0.062], [0.23, 0.50, 0.068]),
        host("sara77", "2 Xeon 2.4 GHz, 1 GbE, Linux 2.4.18", [0.40, 0.45, 0.070], [0.51, 0.51, 0.068]),
        host("ncdm171", "2 PowerPC G4 1 GHz, 1 GbE, Mac OS X", [1.22, 1.45, 0.202], [2.22, 2.73, 0.245]),
        host("win91", "2 Xeon 2.4 GHz, 1 GbE, Windows XP", [1.03, 1.09, 0.203], [1.14, 1.28, 0.302]),
        host("ncdm87", "2 Opteron 2.4 GHz, 1 GbE, Linux 2.6.8", [0.26, 0.40, 0.065], [0.25, 0.56, 0.087]),
    ]
}
