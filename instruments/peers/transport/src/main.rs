//! The reliable transport compared with libudt, quinn and the kernel's TCP, and with the kernel's UDP alone as the
//! limit: memory to memory, at full speed.
//!
//! A source and a reader, each in its own process, on this host's loopback and in two namespaces joined by a veth
//! pair; systems in turn, several runs each. `goodput` is the rate at the reader's application, from its first byte
//! to its last; `cpu_per_packet` the processor time of a side's process, kernel included, by packets of the case's
//! size; for TCP the equivalent number of packets. Options: [`Bench`].

mod libudt;
mod limit;
mod meter;
mod ours;
mod quinn;
mod tcp;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use peers::place::{Place, Side};
use peers::process::{Role, end_with_leader, plays, tell};
use peers::{Bench, Extent, Standing, Taken};
use serde::{Deserialize, Serialize};

use meter::Told;

/// Size of a source's writes. Units: bytes.
pub(crate) const BLOCK_BYTES: usize = 1 << 18;

/// Task of one side of a run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) system: System,
    pub(crate) address: SocketAddr,
    /// MTU of the interface. Units: bytes.
    pub(crate) mtu: u32,
    pub(crate) seconds: f64,
}

/// System that moves the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum System {
    /// Our transport with a window and no pacing, like TCP: the control of Scalable TCP.
    Tallycast,
    /// Our transport with UDT's own control, whose rate grows with the free capacity of the path, at any round
    /// trip.
    TallycastUdt,
    /// The first without trains of packets.
    TallycastPlain,
    /// The first, with every datagram inside a session of Noise (AES-256-GCM).
    TallycastNoise,
    /// The same with ChaCha20-Poly1305.
    TallycastChacha,
    Libudt,
    Quinn,
    Tcp,
    /// UDP without any protocol, sent as fast as possible; the rate is what arrives.
    Limit,
}

impl System {
    /// Returns the functions of the source and of the reader.
    fn ends(self) -> [fn(&Task) -> Result<Told>; 2] {
        match self {
            Self::Tallycast | Self::TallycastUdt | Self::TallycastPlain | Self::TallycastNoise | Self::TallycastChacha => {
                [ours::send, ours::receive]
            }
            Self::Libudt => [libudt::send, libudt::receive],
            Self::Quinn => [quinn::send, quinn::receive],
            Self::Tcp => [tcp::send, tcp::receive],
            Self::Limit => [limit::send, limit::receive],
        }
    }

    const ALL: [Self; 9] = [
        Self::Tallycast,
        Self::TallycastUdt,
        Self::TallycastPlain,
        Self::TallycastNoise,
        Self::TallycastChacha,
        Self::Libudt,
        Self::Quinn,
        Self::Tcp,
        Self::Limit,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Tallycast => "tallycast",
            Self::TallycastUdt => "tallycast-udt",
            Self::TallycastPlain => "tallycast-plain",
            Self::TallycastNoise => "tallycast-noise",
            Self::TallycastChacha => "tallycast-noise-chacha",
            Self::Libudt => "libudt",
            Self::Quinn => "quinn",
            Self::Tcp => "tcp",
            Self::Limit => "limit",
        }
    }
}

/// Place and parameters of a measurement.
struct Case {
    name: &'static str,
    mtu: u32,
    is_loopback: bool,
}

const CASES: [Case; 3] = [
    Case { name: "loopback/mtu65536", mtu: 65_536, is_loopback: true },
    Case { name: "veth/mtu1500", mtu: 1_500, is_loopback: false },
    Case { name: "veth/mtu9000", mtu: 9_000, is_loopback: false },
];

fn main() -> Result<()> {
    if plays(&[Role::new("source", source), Role::new("reader", reader)])? {
        return Ok(());
    }
    let bench =
        Bench::begin("transport", Extent { runs: 5, seconds: 3.0 }, Extent { runs: 1, seconds: 1.0 })?;
    let Extent { runs, seconds } = bench.extent;
    bench.introduce(&format!("medians of {runs} runs of {seconds} s (smallest – largest), systems in turn"));
    let mut systems = systems(&bench)?;
    for path in &CASES {
        let Some(case) = bench.case(path.name.to_owned()) else { continue };
        let place = if path.is_loopback {
            Place::loopback()?
        } else {
            let mtu = u16::try_from(path.mtu).context("an MTU of a veth pair")?;
            let Some(place) = Place::veth(&bench, "veth", mtu)? else { continue };
            place
        };
        let taken = case.in_turn(&mut systems, |system| measure(&place, path, *system, seconds))?;
        taken.iter().for_each(|it| rows(&case, path, it));
        let of = |name: &str| taken.iter().find(|it| it.system == name).map_or(&[][..], |it| &it.runs);
        let goodput = |runs: &[(Told, Told)]| -> Vec<f64> {
            runs.iter().map(|(_, reader)| reader.bytes / reader.seconds).collect()
        };
        let clear = goodput(of("tallycast"));
        for secured in ["tallycast-noise", "tallycast-noise-chacha"] {
            case.row(secured, "goodput_to_clear", "x", peers::ratios(&goodput(of(secured)), &clear));
        }
    }
    Ok(())
}

/// Returns the systems that can be measured here.
fn systems(bench: &Bench) -> Result<Vec<(&'static str, System)>> {
    let has_libudt = libudt::build()?;
    if !has_libudt {
        bench.note("libudt is missing (Debian packages libudt-dev and g++)");
    }
    let systems = System::ALL.into_iter().filter(|system| has_libudt || *system != System::Libudt);
    Ok(systems.map(|system| (system.name(), system)).collect())
}

fn rows(case: &peers::Case<'_>, path: &Case, taken: &Taken<(Told, Told)>) {
    let payload = f64::from(path.mtu.min(65_535)) - 44.0;
    let row = |metric, unit, figure: &dyn Fn(&(Told, Told)) -> f64| {
        case.row(taken.system, metric, unit, taken.runs.iter().map(figure));
    };
    row("goodput", "Gbit/s", &|(_, reader)| reader.bytes * 8e-9 / reader.seconds);
    row("source_cpu_per_packet", "us", &|(source, _)| source.cpu_seconds * 1e6 / (source.bytes / payload));
    row("reader_cpu_per_packet", "us", &|(_, reader)| reader.cpu_seconds * 1e6 / (reader.bytes / payload));
    row("again", "%", &|(source, _)| source.again * 100.0 / (source.bytes / payload));
}

fn measure(place: &Place, path: &Case, system: System, seconds: f64) -> Result<(Told, Told)> {
    let address = SocketAddr::from((place.reader, place.port));
    let task = Task { system, address, mtu: path.mtu, seconds };
    let mut reader = place.start(Side::Reader, "reader", Standing::Anywhere, &task)?;
    reader.hear::<()>("ready")?;
    let mut source = place.start(Side::Source, "source", Standing::Anywhere, &task)?;
    let sent: Told = source.hear("done")?;
    let received: Told = reader.hear("done")?;
    ensure!(
        sent.bytes == received.bytes || system == System::Limit,
        "{} bytes were sent and {} arrived",
        sent.bytes,
        received.bytes
    );
    Ok((sent, received))
}

fn source(task: Task) -> Result<()> {
    let [send, _] = task.system.ends();
    side(send, &task)
}

fn reader(task: Task) -> Result<()> {
    let [_, receive] = task.system.ends();
    side(receive, &task)
}

/// Runs one side, as the other process of a run.
fn side(run: fn(&Task) -> Result<Told>, task: &Task) -> Result<()> {
    end_with_leader();
    tell("done", &run(task)?)?;
    // The leader ends this process: its last message may still be in flight.
    std::thread::sleep(Duration::from_secs(60));
    Ok(())
}
