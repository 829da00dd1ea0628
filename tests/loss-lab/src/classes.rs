//! A class of loss: where it is planted, and what the doctor must report. [`CLASSES`] lists all of them.

mod device;
mod host;
mod list;
mod path;
mod socket;
mod starved;
mod steps;

pub(crate) use list::CLASSES;
pub(crate) use path::on_first_processor;
pub(crate) use steps::Stepping;

use std::time::Duration;

use ledger::Stage;

use crate::remedy::{BeginSteps, Knob, Remedy};
use crate::scene::{Scene, Version};
use crate::traffic::Planted;

/// A class of loss.
pub(crate) struct Class {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) versions: &'static [Version],
    /// Stages of the loss; several if two classes are planted at once, none if nothing is.
    pub(crate) stages: &'static [Stage],
    pub(crate) sight: Sight,
    /// Part of a counter's name that must be among the evidence.
    pub(crate) counter: Option<&'static str>,
    /// Maximum time the kernel may wait before it gives a datagram up.
    pub(crate) patience: Duration,
    /// True if its counter is the whole host's: the doctor of every namespace reports it, and the reader's report
    /// counts.
    pub(crate) is_of_whole_host: bool,
    /// True if the doctor is restricted to the scene's ports, because other ports have losses, too.
    pub(crate) is_of_ports: bool,
    /// True if the loss is visible at checkpoints only.
    pub(crate) has_checkpoints: bool,
    /// True if it changes settings of the whole machine: planted only if named.
    pub(crate) only_if_named: bool,
    /// Preparation before the doctor watches.
    pub(crate) prepare: fn(&mut Scene) -> anyhow::Result<()>,
    /// Sends datagrams, and returns those that did not arrive.
    pub(crate) plant: fn(&mut Scene) -> anyhow::Result<Planted>,
    /// Remedy of `doctor fix`, if there is one.
    pub(crate) remedy: Option<Remedy>,
}

/// Visible evidence of a loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sight {
    /// Each datagram by its drop event, and the same count by a counter.
    Numbers,
    /// Each datagram by its drop event; no counter counts datagrams.
    NoCounter,
    /// Each datagram of trains of eight by the drop event of its train, and as many trains by a counter of this name.
    Trains(&'static str),
    /// Counts alone, without numbers: the fragment with the number never arrived.
    Unnumbered,
}

const BOTH: &[Version] = &[Version::V4, Version::V6];
const V4: &[Version] = &[Version::V4];

/// Begins a class: nothing is prepared and nothing is lost, over both IP versions.
const fn class(name: &'static str, plant: fn(&mut Scene) -> anyhow::Result<Planted>) -> Class {
    Class {
        name,
        about: "",
        versions: BOTH,
        stages: &[],
        sight: Sight::Numbers,
        counter: None,
        patience: Duration::ZERO,
        is_of_whole_host: false,
        is_of_ports: false,
        has_checkpoints: false,
        only_if_named: false,
        prepare: nothing,
        plant,
        remedy: None,
    }
}

impl Class {
    const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }

    const fn only_over_ipv4(self) -> Self {
        Self { versions: V4, ..self }
    }

    const fn prepared_by(self, prepare: fn(&mut Scene) -> anyhow::Result<()>) -> Self {
        Self { prepare, ..self }
    }

    const fn lost_at(self, stages: &'static [Stage], sight: Sight) -> Self {
        Self { stages, sight, ..self }
    }

    const fn given_up_within(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    const fn fixed_by(self, remedy: Remedy) -> Self {
        Self { remedy: Some(remedy), ..self }
    }
}

/// A larger receive buffer helps: one class shows it for both versions.
const fn larger_buffer(versions: &'static [Version], steps: BeginSteps) -> Remedy {
    remedied_by(Knob::Buffer, versions, steps, 10)
}

/// A remedy that `doctor fix` applies, while a step is sent every `millis` milliseconds.
const fn remedied_by(knob: Knob, versions: &'static [Version], steps: BeginSteps, period_ms: u64) -> Remedy {
    Remedy { steps, knob, versions, period: Duration::from_millis(period_ms), parts: 1 }
}

fn nothing(_: &mut Scene) -> anyhow::Result<()> {
    Ok(())
}
