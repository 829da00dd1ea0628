//! Comparison of congestion controls: flows of the real transport over one bottleneck of the virtual network.
//!
//! The topology is the field's dumbbell: each flow has a sender on one side and a receiver on the other, and all
//! share the trunk between. The state machine is the one that runs on sockets, packet by packet; only clock, hosts
//! and network are simulated. The result depends on the [`Run`] alone: the same seed gives the same numbers
//! everywhere.
//!
//! ```
//! use core::time::Duration;
//! use cc_lab::{Flow, Packets, Path, Run};
//!
//! let path = Path::new(20_000_000, Duration::from_millis(10));
//! let flows = ["reno", "cubic"].map(|name| Flow::named(name, "").unwrap());
//! let outcome = Run::new(path, flows.to_vec(), Duration::from_secs(5)).play(|_| true).unwrap();
//! assert!(outcome.utilisation() > 0.8, "{outcome:?}");
//! let Packets { sent, delivered, in_flight, .. } = outcome.packets;
//! assert_eq!(sent, delivered + outcome.packets.lost() + in_flight);
//! ```

mod compare;
mod hosts;
mod outcome;
mod part;
mod report;
mod run;
mod sweep;

pub use compare::{Comparison, Competitor, Standing};
pub use hosts::Hosts;
pub use outcome::{FlowOutcome, Outcome, Packets, jain_index};
pub use report::{ComparisonReport, Conditions, SweepReport};
pub use run::{Flow, Path, Run};
pub use sweep::{Cell, Sweep};
