//! Tuning of the data path: features that save work, amounts sent at once, and scheduling of threads.
//!
//! The defaults suit most uses; each is an option of the bus, such as `udp://239.84.0.0?train=64&idle=spin`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use cast::send::{Limits, Pacing};
use engine::{Idle, ThreadTuning};
use sys::{MAX_SEGMENTS, ReceiveTechniques, SendTechniques};
use units::text::duration;

use crate::address::AddressError;

/// Options of a bus that belong to the tuning.
pub(super) const OPTIONS: [&str; 12] = [
    "train",
    "quantum",
    "gso",
    "gro",
    "batch",
    "connect",
    "idle",
    "busy_poll",
    "send_cpu",
    "receive_cpu",
    "send_fifo",
    "receive_fifo",
];

/// Maximum quantum: a longer one is no pacing.
const MAX_QUANTUM: Duration = Duration::from_secs(1);
/// Maximum time for which the kernel may poll for datagrams.
const MAX_BUSY_POLL: Duration = Duration::from_millis(10);

/// Tuning of the data path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tuning {
    /// Amount sent at once: options `train` (datagrams, 1 to 64) and `quantum` (a time).
    pub limits: Limits,
    /// Kernel features that sending sockets use to save work: options `gso`, `batch`, `connect`.
    pub sending: SendTechniques,
    /// Kernel features that receiving sockets use to save work: options `gro`, `batch`.
    pub receiving: ReceiveTechniques,
    /// Time for which a read polls the network card's queue: option `busy_poll`.
    pub busy_poll: Option<Duration>,
    /// Scheduling of the sending agent's thread: options `idle`, `send_cpu`, `send_fifo`.
    pub send_thread: ThreadTuning,
    /// Scheduling of the receiving agent's thread: options `idle`, `receive_cpu`, `receive_fifo`.
    pub receive_thread: ThreadTuning,
}

impl Tuning {
    /// Returns the default pacing of publishers.
    pub(crate) const fn pacing(&self) -> Pacing {
        Pacing::Stream(self.limits)
    }

    /// Parses the tuning options of a bus.
    pub(super) fn parse(options: &BTreeMap<String, String>) -> Result<Self, AddressError> {
        let mut tuning = Self::default();
        let read = Options(options);
        if let Some(train) = read.number("train", 1..=MAX_SEGMENTS, "1 to 64 datagrams")? {
            tuning.limits.train = train;
        }
        if let Some(quantum) = read.time("quantum", MAX_QUANTUM, "a time such as 500us, up to 1s")? {
            tuning.limits.quantum = quantum;
        }
        read.switch("gso", &mut tuning.sending.gso)?;
        read.switch("gro", &mut tuning.receiving.gro)?;
        read.switch("batch", &mut tuning.sending.batches)?;
        tuning.receiving.batches = tuning.sending.batches;
        read.switch("connect", &mut tuning.sending.connect)?;
        tuning.busy_poll = read.time("busy_poll", MAX_BUSY_POLL, "a time such as 50us, up to 10ms")?;
        let idle = read.idle()?;
        let thread = |cpu, fifo| -> Result<ThreadTuning, AddressError> {
            let fifo = read.number(fifo, 1..=sys::scheduling::MAX_FIFO_PRIORITY, "a priority, 1 to 99")?;
            Ok(ThreadTuning { idle, cpu: read.number(cpu, 0..=1_023, "the number of a processor")?, fifo })
        };
        tuning.send_thread = thread("send_cpu", "send_fifo")?;
        tuning.receive_thread = thread("receive_cpu", "receive_fifo")?;
        Ok(tuning)
    }
}

struct Options<'a>(&'a BTreeMap<String, String>);

impl Options<'_> {
    fn value<T>(
        &self,
        name: &'static str,
        wanted: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, AddressError> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| AddressError::Value { name, value: value.clone(), wanted })
    }

    fn number<T: FromStr + PartialOrd>(
        &self,
        name: &'static str,
        range: std::ops::RangeInclusive<T>,
        wanted: &'static str,
    ) -> Result<Option<T>, AddressError> {
        self.value(name, wanted, |text| text.parse().ok().filter(|number| range.contains(number)))
    }

    fn switch(&self, name: &'static str, switch: &mut bool) -> Result<(), AddressError> {
        let on = self.value(name, "on or off", |text| match text {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        })?;
        *switch = on.unwrap_or(*switch);
        Ok(())
    }

    fn time(
        &self,
        name: &'static str,
        longest: Duration,
        wanted: &'static str,
    ) -> Result<Option<Duration>, AddressError> {
        self.value(name, wanted, |text| duration(text).ok().filter(|time| *time <= longest))
    }

    fn idle(&self) -> Result<Idle, AddressError> {
        let idle = self.value("idle", "park, yield or spin", |text| match text {
            "park" => Some(Idle::Park),
            "yield" => Some(Idle::Yield),
            "spin" => Some(Idle::Spin),
            _ => None,
        })?;
        Ok(idle.unwrap_or_default())
    }
}

/// Formats the settings that differ from the defaults, as options of a bus.
impl fmt::Display for Tuning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = Self::default();
        if self.limits.train != plain.limits.train {
            write!(formatter, "&train={}", self.limits.train)?;
        }
        if self.limits.quantum != plain.limits.quantum {
            write!(formatter, "&quantum={}ns", self.limits.quantum.as_nanos())?;
        }
        let switches = [
            ("gso", self.sending.gso, plain.sending.gso),
            ("gro", self.receiving.gro, plain.receiving.gro),
            ("batch", self.sending.batches, plain.sending.batches),
            ("connect", self.sending.connect, plain.sending.connect),
        ];
        for (name, is_on, _) in switches.into_iter().filter(|(_, is_on, usual)| is_on != usual) {
            write!(formatter, "&{name}={}", if is_on { "on" } else { "off" })?;
        }
        if let Some(time) = self.busy_poll {
            write!(formatter, "&busy_poll={}ns", time.as_nanos())?;
        }
        match self.send_thread.idle {
            Idle::Park => {}
            Idle::Yield => formatter.write_str("&idle=yield")?,
            Idle::Spin => formatter.write_str("&idle=spin")?,
        }
        let threads = [("send", self.send_thread), ("receive", self.receive_thread)];
        for (name, thread) in threads {
            if let Some(cpu) = thread.cpu {
                write!(formatter, "&{name}_cpu={cpu}")?;
            }
            if let Some(priority) = thread.fifo {
                write!(formatter, "&{name}_fifo={priority}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bus;

    #[test]
    fn what_is_tuned_reads_back_as_written() {
        for options in [
            "train=64&quantum=2ms",
            "gso=off&gro=off&batch=off",
            "connect=on&busy_poll=50us",
            "idle=spin&send_cpu=0&receive_cpu=1",
            "idle=yield&send_fifo=10&receive_fifo=99",
            "quantum=0ns",
        ] {
            let bus: Bus = format!("udp://239.84.0.0?{options}").parse().unwrap();
            assert_ne!(bus.tuning, Tuning::default(), "{options}");
            assert_eq!(bus.to_string().parse::<Bus>().unwrap(), bus, "{options}");
        }
    }

    #[test]
    fn each_technique_has_a_switch_of_its_own() {
        let tuning = |options: &str| format!("udp://239.84.0.0?{options}").parse::<Bus>().unwrap().tuning;
        assert!(!tuning("gso=off").sending.gso && tuning("gso=off").receiving.gro);
        assert!(!tuning("gro=off").receiving.gro && tuning("gro=off").sending.gso);
        let single = tuning("batch=off");
        assert!(!single.sending.batches && !single.receiving.batches && single.sending.gso);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_does() {
        for (option, wanted) in [
            ("train=0", "1 to 64"),
            ("train=65", "1 to 64"),
            ("quantum=2s", "up to 1s"),
            ("quantum=5", "a time"),
            ("gso=maybe", "on or off"),
            ("idle=sleep", "park, yield or spin"),
            ("busy_poll=1s", "up to 10ms"),
            ("send_fifo=100", "1 to 99"),
            ("receive_cpu=-1", "processor"),
        ] {
            let refused = format!("udp://239.84.0.0?{option}").parse::<Bus>().unwrap_err().to_string();
            assert!(refused.contains(wanted), "{option}: {refused}");
        }
    }
}
