//! A class of loss: where it is planted, and what the doctor must say of it. [`CLASSES`] are all of them.

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
    /// Where they are lost; several where two classes are planted at once, none where nothing is.
    pub(crate) stages: &'static [Stage],
    pub(crate) sight: Sight,
    /// What must be among the evidence: a part of a counter's name.
    pub(crate) counter: Option<&'static str>,
    /// How long the kernel may wait before it gives a datagram up.
    pub(crate) patience: Duration,
    /// Its counter is the whole host's: the doctor of every namespace reports it, and the reader's is heard.
    pub(crate) is_of_whole_host: bool,
    /// The doctor is asked for the scene's ports: others lose something, too.
    pub(crate) is_of_ports: bool,
    /// It is to be seen at checkpoints only.
    pub(crate) has_checkpoints: bool,
    /// It changes what belongs to the whole machine: planted only where it is named.
    pub(crate) only_if_named: bool,
    /// Preparation before the doctor watches.
    pub(crate) prepare: fn(&mut Scene) -> anyhow::Result<()>,
    /// Sends datagrams, and returns which did not arrive.
    pub(crate) plant: fn(&mut Scene) -> anyhow::Result<Planted>,
    /// What `doctor fix` can do against it.
    pub(crate) remedy: Option<Remedy>,
}

/// What there is to be seen of a loss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sight {
    /// Each datagram by its drop event, and as many by a counter.
    Numbers,
    /// Each datagram by its drop event; no counter counts datagrams.
    NoCounter,
    /// Each datagram of trains of eight by the drop event of its train, and as many trains by a counter of this name.
    Trains(&'static str),
    /// As many, and no number: what carried it never came.
    Unnumbered,
}

const BOTH: &[Version] = &[Version::V4, Version::V6];
const V4: &[Version] = &[Version::V4];
const SOON: Duration = Duration::ZERO;

const fn class(
    name: &'static str,
    about: &'static str,
    versions: &'static [Version],
    stages: &'static [Stage],
    sight: Sight,
    plant: fn(&mut Scene) -> anyhow::Result<Planted>,
) -> Class {
    Class {
        name,
        about,
        versions,
        stages,
        sight,
        counter: None,
        patience: SOON,
        is_of_whole_host: false,
        is_of_ports: false,
        has_checkpoints: false,
        only_if_named: false,
        prepare: nothing,
        plant,
        remedy: None,
    }
}

/// A larger receive buffer helps: one class shows it over both versions.
const fn larger_buffer(versions: &'static [Version], steps: BeginSteps) -> Option<Remedy> {
    remedied_by(Knob::Buffer, versions, steps, 10)
}

/// Something that `doctor fix` changes helps, while a step is made every so many milliseconds.
const fn remedied_by(
    knob: Knob,
    versions: &'static [Version],
    steps: BeginSteps,
    period_ms: u64,
) -> Option<Remedy> {
    Some(Remedy { steps, knob, versions, period: Duration::from_millis(period_ms), parts: 1 })
}

fn nothing(_: &mut Scene) -> anyhow::Result<()> {
    Ok(())
}
