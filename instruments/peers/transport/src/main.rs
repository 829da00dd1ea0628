//! The reliable transport compared with libudt, quinn and the kernel's TCP, and with the kernel's UDP alone as the
//! limit: memory to memory, at full speed.
//!
//! A source and a reader, each in its own process, on this host's loopback and in two namespaces joined by a veth
//! pair; systems in turn, several runs each. `goodput` is the rate at the reader's application, from its first byte
//! to its last; `cpu_per_packet` the processor time of a side's process, kernel included, by packets of the case's
//! size; for TCP the equivalent number of packets. `--json` prints rows as objects; `--quick` takes fewer and
//! shorter runs, for trying; `--only TEXT` takes the cases whose names contain it.

mod libudt;
mod limit;
mod ours;
mod quinn;
mod tcp;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use peers::interrupt::Interrupt;
use peers::place::{Place, Side};
use peers::process::{self, Process};
use peers::{Report, Row};
use serde::{Deserialize, Serialize};

/// Size of a source's writes. Units: bytes.
pub(crate) const BLOCK_BYTES: usize = 1 << 18;

/// Task of one side of a run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) system: System,
    pub(crate) role: Role,
    pub(crate) address: SocketAddr,
    /// MTU of the interface. Units: bytes.
    pub(crate) mtu: u32,
    pub(crate) seconds: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    Source,
    Reader,
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
    Libudt,
    Quinn,
    Tcp,
    /// UDP without any protocol, sent as fast as possible; the rate is what arrives.
    Limit,
}

/// Report of one side of a run.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) bytes: f64,
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
    /// Retransmitted packets, of a source.
    pub(crate) again: f64,
}

impl System {
    const ALL: [Self; 7] = [
        Self::Tallycast,
        Self::TallycastUdt,
        Self::TallycastPlain,
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
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "side") {
        return side();
    }
    let only = arguments.iter().position(|argument| argument == "--only");
    let only = only.and_then(|at| arguments.get(at + 1)).cloned().unwrap_or_default();
    let is_quick = arguments.iter().any(|argument| argument == "--quick");
    let (runs, seconds) = if is_quick { (1, 1.0) } else { (5, 3.0) };
    let report = Report::from_arguments("transport");
    report.note(&format!("medians of {runs} runs of {seconds} s (smallest – largest), systems in turn"));
    let interrupt = Interrupt::watch()?;
    let systems = systems(&report)?;
    for case in CASES.iter().filter(|case| case.name.contains(&only)) {
        let place = if case.is_loopback {
            Place::loopback()?
        } else {
            let mtu = u16::try_from(case.mtu).context("an MTU of a veth pair")?;
            match Place::veth("transport", mtu)? {
                Ok(place) => place,
                Err(reason) => {
                    report.note(&format!("{}: {reason}", case.name));
                    continue;
                }
            }
        };
        let mut all: Vec<Vec<(Told, Told)>> = systems.iter().map(|_| Vec::new()).collect();
        for run in 0..runs {
            eprintln!("transport: {}, run {}", case.name, run + 1);
            for (system, told) in systems.iter().zip(&mut all) {
                interrupt.check()?;
                let it = measure(&place, case, *system, seconds);
                told.push(it.with_context(|| format!("{} at {}", system.name(), case.name))?);
            }
        }
        for (system, told) in systems.iter().zip(&all) {
            rows(&report, case, *system, told);
        }
    }
    Ok(())
}

/// Returns the systems that can be measured here.
fn systems(report: &Report) -> Result<Vec<System>> {
    let has_libudt = libudt::build()?;
    if !has_libudt {
        report.note("libudt is missing (Debian packages libudt-dev and g++)");
    }
    Ok(System::ALL.into_iter().filter(|system| has_libudt || *system != System::Libudt).collect())
}

fn rows(report: &Report, case: &Case, system: System, told: &[(Told, Told)]) {
    let payload = f64::from(case.mtu.min(65_535)) - 44.0;
    type Figure<'a> = (&'a str, &'a str, &'a dyn Fn(&(Told, Told)) -> f64);
    let figures: [Figure<'_>; 4] = [
        ("goodput", "Gbit/s", &|(_, reader)| reader.bytes * 8e-9 / reader.seconds),
        ("source_cpu_per_packet", "us", &|(source, _)| source.cpu_seconds * 1e6 / (source.bytes / payload)),
        ("reader_cpu_per_packet", "us", &|(_, reader)| reader.cpu_seconds * 1e6 / (reader.bytes / payload)),
        ("again", "%", &|(source, _)| source.again * 100.0 / (source.bytes / payload)),
    ];
    for (metric, unit, figure) in figures {
        let runs: Vec<f64> = told.iter().map(figure).collect();
        report.row(&Row { case: case.name, system: system.name(), metric, unit, runs: &runs });
    }
}

fn measure(place: &Place, case: &Case, system: System, seconds: f64) -> Result<(Told, Told)> {
    let address = SocketAddr::from((place.reader, place.port));
    let task = |role| Task { system, role, address, mtu: case.mtu, seconds };
    let start = |role, side| -> Result<Process> {
        let mut command = place.command(side)?;
        command.arg("side");
        let mut process = Process::start(command)?;
        process.say(&task(role))?;
        Ok(process)
    };
    let mut reader = start(Role::Reader, Side::Reader)?;
    reader.hear::<()>("ready")?;
    let mut source = start(Role::Source, Side::Source)?;
    let sent: Told = source.hear("done")?;
    let received: Told = reader.hear("done")?;
    anyhow::ensure!(
        sent.bytes == received.bytes || system == System::Limit,
        "{} bytes were sent and {} arrived",
        sent.bytes,
        received.bytes
    );
    Ok((sent, received))
}

/// Runs one side, as the other process of a run.
fn side() -> Result<()> {
    let Some(line) = process::next_line()? else { bail!("no task received") };
    let task: Task = peers::process::understand(&line)?;
    process::end_with_leader();
    let told = match (task.system, task.role) {
        (System::Tallycast | System::TallycastUdt | System::TallycastPlain, Role::Source) => {
            ours::send(&task)?
        }
        (System::Tallycast | System::TallycastUdt | System::TallycastPlain, Role::Reader) => {
            ours::receive(&task)?
        }
        (System::Tcp, Role::Source) => tcp::send(&task)?,
        (System::Tcp, Role::Reader) => tcp::receive(&task)?,
        (System::Quinn, Role::Source) => quinn::send(&task)?,
        (System::Quinn, Role::Reader) => quinn::receive(&task)?,
        (System::Limit, Role::Source) => limit::send(&task)?,
        (System::Limit, Role::Reader) => limit::receive(&task)?,
        (System::Libudt, _) => libudt::side(&task)?,
    };
    process::tell("done", &told)?;
    // The leader ends this process: its last message may still be in flight.
    std::thread::sleep(Duration::from_secs(60));
    Ok(())
}
