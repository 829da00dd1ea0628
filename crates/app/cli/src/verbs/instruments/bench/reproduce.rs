//! `tallycast bench reproduce`: published measurements reproduced, their conclusions compared with ours.

use std::net::IpAddr;

use anyhow::bail;
use bench::petri_2007::{self, DELAY, Path, Wanted};
use bench::report::{Ends, Grid, Reproduction, Watch};
use bench::{Cable, LinkSettings, Namespaces, gu_grossman, scollo, udp_notes, w7x_monitoring};
use clap::{Args, ValueEnum};

use super::handout::Handout;
use super::outcome;
use super::output;
use super::scene::{OtherEnd, Scene};
use crate::Outcome;

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast bench reproduce w7x-monitoring --html w7x.html           loss at a receiver and its remedies, in two minutes
  tallycast bench reproduce gu-grossman-2005                         CPU cost of UDP, TCP and streams, in three minutes
  tallycast bench reproduce gu-grossman-2005 --full -c 192.0.2.7     between two hosts, with as many runs as the paper
  tallycast bench reproduce udp-notes --html udp.html                datagrams received per second, in a minute
  tallycast bench reproduce petri-2007                               ping-pongs, parallel streams; as root in namespaces
  tallycast bench reproduce petri-2007 -c 192.0.2.7 --html petri.html
  tallycast bench reproduce scollo                                   a few points of the grid, in three to four minutes
  tallycast bench reproduce scollo --full --html scollo.html         the whole grid; takes most of a day";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The published measurement
    #[arg(value_name = "NAME")]
    document: Document,
    /// Measure all published points, with runs as long as the published ones
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    other_end: OtherEnd,
    #[command(flatten)]
    handout: Handout,
}

/// The published measurements that can be reproduced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Document {
    /// Wendelstein 7-X monitoring paper: when a receiver loses datagrams, and which remedies help
    #[value(name = "w7x-monitoring", alias = "000")]
    W7xMonitoring,
    /// Gu & Grossman 2005: CPU cost of UDP and TCP, and end-system delay
    #[value(name = "gu-grossman-2005", alias = "001")]
    GuGrossman2005,
    /// UDP notes: receive capacity of processes at separate ports and of threads at one socket
    #[value(name = "udp-notes", alias = "002")]
    UdpNotes,
    /// Petri 2007 (VIOLA report): ping-pongs and parallel streams of TCP and UDT over 10 Gbit/s
    #[value(name = "petri-2007", alias = "003")]
    Petri2007,
    /// Scollo (DLR/TU Braunschweig): largest array per cycle over UDP and shared memory
    #[value(name = "scollo", alias = "004")]
    Scollo,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let grid = if arguments.full { Grid::Full } else { Grid::Short };
    match arguments.document {
        Document::W7xMonitoring => {
            with_server(arguments, |ends, watch| Ok(w7x_monitoring::reproduce(grid, ends, watch)))
        }
        Document::GuGrossman2005 => {
            with_server(arguments, |ends, watch| Ok(gu_grossman::measure(grid, ends, watch)))
        }
        Document::UdpNotes => {
            with_server(arguments, |ends, watch| Ok(udp_notes::reproduce(grid, ends, watch)?))
        }
        Document::Petri2007 => long_path(grid, arguments),
        Document::Scollo => {
            if !arguments.other_end.is_this_host() {
                bail!("scollo measures two processes of one host\nleave -c, -B and --netns out");
            }
            output::measure(&scollo::options(grid), &arguments.handout, |report| {
                report.source = Some(scollo::compare(report, grid));
            })
        }
    }
}

fn long_path(grid: Grid, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let end = &arguments.other_end;
    if end.mtu().is_some() {
        bail!("petri-2007 has fixed MTUs, 1500 and 9000\nleave --mtu out");
    }
    let controls = sys::tcp::available().unwrap_or_default();
    let report = arguments.handout.of(|watch| {
        // If namespaces cannot be made, it measures without them, unless they were requested.
        let has_namespaces =
            end.is_netns() || (end.is_this_host() && Namespaces::make(Cable::default()).is_ok());
        let mut lay = |wanted: Wanted| -> Result<Box<dyn Path>, String> {
            let place = match wanted {
                Wanted::AsItIs => Place::of(end),
                Wanted::Delayed { mtu } => Place::with_delay(mtu),
                Wanted::Emulated { mtu, lost } => Place::emulated(mtu, lost, None),
            };
            Ok(Box::new(place.map_err(|error| format!("{error:#}"))?))
        };
        Ok(petri_2007::measure(grid, has_namespaces, &controls, &mut lay, watch))
    })?;
    outcome(report.state, report.counts().0 > 0)
}

/// Reproduces measurements that need a server.
fn with_server(
    arguments: &Arguments,
    reproduce: impl FnOnce(Ends<'_>, &mut dyn Watch) -> anyhow::Result<Reproduction>,
) -> anyhow::Result<Outcome> {
    let report = arguments.handout.of(|watch| {
        let scene = Scene::set(&arguments.other_end)?;
        reproduce(Ends { server: scene.server(), from: arguments.other_end.bind }, watch)
    })?;
    outcome(report.state, report.counts().0 > 0)
}

/// A path of Petri 2007.
struct Place {
    scene: Scene,
    from: Option<IpAddr>,
    notes: Vec<String>,
}

impl Place {
    /// Makes a path between two namespaces with the published delay: a cable that the kernel delays (`netem`), or an
    /// emulated link where it cannot.
    fn with_delay(mtu: u32) -> anyhow::Result<Self> {
        let scene = Scene::in_namespaces(Cable { mtu_bytes: Some(mtu) })?;
        match scene.delay(DELAY) {
            Ok(()) => {
                let note = format!("the path is a cable with a delay of {DELAY:?} in each direction (netem)");
                Ok(Self { scene, from: None, notes: vec![note] })
            }
            Err(error) => {
                drop(scene);
                let said = error.to_string();
                Self::emulated(mtu, None, said.lines().next())
            }
        }
    }

    /// Makes an emulated link between two namespaces, which loses a chosen packet in each direction, or none.
    fn emulated(mtu_bytes: u32, lost: Option<u64>, why: Option<&str>) -> anyhow::Result<Self> {
        let settings = LinkSettings { mtu_bytes, delay: DELAY, lost: lost.into_iter().collect() };
        let scene = Scene::over_emulated_link(&settings)?;
        let link = format!("the path is our link emulator with a delay of {DELAY:?} in each direction");
        let note = match (why, lost) {
            (Some(why), _) => format!("{link}, since the kernel cannot delay a cable: {why}"),
            (None, None) => format!("{link}, for comparison with a lost packet"),
            (None, Some(number)) => format!("{link} that loses packet {number} of each"),
        };
        Ok(Self { scene, from: None, notes: vec![note] })
    }

    fn of(end: &OtherEnd) -> anyhow::Result<Self> {
        let note = "this path is used as it is: the published one had a round-trip time of 20 ms, and MTU 1500 and 9000";
        Ok(Self { scene: Scene::set(end)?, from: end.bind, notes: vec![note.to_owned()] })
    }
}

impl Path for Place {
    fn ends(&self) -> Ends<'_> {
        Ends { server: self.scene.server(), from: self.from }
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn end(self: Box<Self>) -> Vec<String> {
        self.scene.end()
    }
}
