//! SRT, by the program of its own project.

use anyhow::Result;
use peers::place::{Place, Side};

use crate::path::Conditions;
use crate::run::{Ports, Programs, System, spawn};

pub(crate) const PROGRAM: &str = "srt-live-transmit";

/// Live mode: delivery is `latency` later than the fastest way, and what is late then is dropped.
pub(crate) struct Srt;

impl System for Srt {
    fn start(&mut self, place: &Place, conditions: &Conditions, ports: &Ports) -> Result<Programs> {
        let latency = conditions.reserve_ms();
        let chunk = format!("-chunk:{}", crate::datagrams::SIZE_BYTES);
        let mut far = place.command(Side::Reader, PROGRAM);
        far.args(["-q", &chunk, &format!("srt://:{}?mode=listener&latency={latency}", ports.listen)]);
        far.arg(format!("udp://127.0.0.1:{}", ports.deliver));
        let mut near = place.command(Side::Source, PROGRAM);
        near.args(["-q", &chunk, &format!("udp://127.0.0.1:{}", ports.accept)]);
        near.arg(format!("srt://{}:{}?latency={latency}", place.reader, ports.entry));
        Ok(vec![spawn(&mut far)?, spawn(&mut near)?])
    }
}
