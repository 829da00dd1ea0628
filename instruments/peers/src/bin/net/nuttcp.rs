//! `nuttcp`: datagrams, one per call, at a precise rate.

use anyhow::{Context, Result};
use peers::Server;
use peers::place::{Place, Side};

use crate::contest::{Contestant, Pace, Run};
use crate::limit::BUFFER_BYTES;
use crate::peer;

pub(crate) const PROGRAM: &str = "nuttcp";

const SECONDS: u64 = 1;

/// Datagrams by nuttcp.
pub(crate) struct Udp<'a> {
    pub(crate) place: &'a Place,
    pub(crate) datagram_bytes: usize,
}

impl Contestant for Udp<'_> {
    fn system(&self) -> &'static str {
        PROGRAM
    }

    fn run(&mut self, pace: Pace) -> Result<Run> {
        let (control, data) = (peer::port(self.place), peer::port(self.place).wrapping_add(1));
        let ports = [format!("-P{control}"), format!("-p{data}")];
        let mut serve = peer::command(self.place, Side::Reader, PROGRAM)?;
        // Otherwise it would continue in the background, as a process unknown to this bench.
        let _server = Server::start_silent(serve.args(["-1", "--nofork"]).args(&ports), control)?;
        let mut call = peer::command(self.place, Side::Source, PROGRAM)?;
        call.args(["-u", "-fparse", &format!("-l{}", self.datagram_bytes), &format!("-T{SECONDS}")]);
        call.arg(format!("-w{}", BUFFER_BYTES / 1024)).args(&ports);
        if let Some(datagrams_per_second) = pace.datagrams_per_second {
            let kilobits_per_second = datagrams_per_second * self.datagram_bytes as f64 * 8.0 / 1e3;
            call.arg(format!("-R{kilobits_per_second:.0}"));
        } else {
            // Unlimited; its default for datagrams is 1 Mbit/s.
            call.arg("-Ru");
        }
        call.arg(self.place.reader.to_string());
        let said = peer::output(call)?;
        self.read(&said).with_context(|| format!("unexpected output of nuttcp: `{}`", said.trim()))
    }
}

impl Udp<'_> {
    /// Parses a line of words such as `pkt=169838`.
    fn read(&self, said: &str) -> Result<Run> {
        let word = |name: &str| -> Result<f64> {
            let mut words = said.split_whitespace().filter_map(|word| word.split_once('='));
            let (_, value) = words.find(|(found, _)| *found == name).with_context(|| format!("no {name}"))?;
            Ok(value.parse()?)
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts of a second")]
        let count = |name| word(name).map(|value| value as u64);
        let (seconds, sent, dropped) = (word("real_seconds")?, count("pkt")?, count("drop")?);
        Ok(Run {
            datagram_bytes: self.datagram_bytes,
            sent,
            received: sent.checked_sub(dropped).context("it dropped more than it sent")?,
            seconds,
            source_cpu_s: word("tx_cpu")? / 100.0 * seconds,
            reader_cpu_s: word("rx_cpu")? / 100.0 * seconds,
            ..Run::default()
        })
    }
}
