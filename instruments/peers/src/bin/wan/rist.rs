//! RIST, main profile, by the programs of librist.

use anyhow::Result;
use peers::place::{Place, Side};

use crate::path::Conditions;
use crate::run::{Ports, Programs, System, spawn};

pub(crate) const SENDER: &str = "ristsender";
const RECEIVER: &str = "ristreceiver";

/// Main profile, which needs one port; the buffer holds every datagram.
pub(crate) struct Rist;

impl System for Rist {
    fn start(&mut self, place: &Place, conditions: &Conditions, ports: &Ports) -> Result<Programs> {
        let buffer = conditions.reserve_ms();
        let mut far = place.command(Side::Reader, RECEIVER);
        far.args(["-i", &format!("rist://@0.0.0.0:{}?buffer={buffer}", ports.listen)]);
        far.args(["-o", &format!("udp://127.0.0.1:{}", ports.deliver)]);
        let mut near = place.command(Side::Source, SENDER);
        near.args(["-i", &format!("udp://@127.0.0.1:{}", ports.accept)]);
        near.args(["-o", &format!("rist://{}:{}?buffer={buffer}", place.reader, ports.entry)]);
        Ok(vec![spawn(&mut far)?, spawn(&mut near)?])
    }
}
