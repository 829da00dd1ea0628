//! The hook in the kernel: loaded, drained, and the counts of what it could not see.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use aya::maps::perf::{PerfEvent, PerfEventArray, PerfEventArrayBuffer};
use aya::maps::{MapData, PerCpuArray, RingBuf};
use aya::{Btf, Ebpf, EbpfLoader};
use diagnose::{DropEvent, Fragment, Numbers, Profile};
use units::Instant;

use crate::btf::Types;
use crate::error::HookError;
use crate::layout::{RUN_BYTES, Run, read_copy, read_run};
use crate::object::{Filter, attach, missed_calls, refused, sum_of};
use crate::runs::OpenRuns;
use crate::symbols::Symbols;

/// Settings of the hook.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Ports of the datagrams to report; none means every port.
    pub ports: Vec<u16>,
    /// Profiles by which stream and number are found; the first that fits is used.
    pub profiles: Vec<Profile>,
    /// True if similar drops are joined in the kernel; otherwise each is an event.
    pub joins: bool,
    /// True to behave as a kernel before Linux 5.17, which reports no reason.
    pub pretends_no_reason: bool,
    /// True to behave as a kernel before Linux 6.11, which reports no socket.
    pub pretends_no_socket: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ports: Vec::new(),
            profiles: vec![Profile::TALLYCAST],
            joins: true,
            pretends_no_reason: false,
            pretends_no_socket: false,
        }
    }
}

/// Counts of datagrams that the hook could not see or report since it was loaded.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Unseen {
    /// Datagrams that there was no room to report.
    pub unreported: u64,
    /// Datagrams whose packets there was no room to copy; a train counts with all its datagrams.
    pub not_copied: u64,
    /// Calls that the kernel skipped, because one was already running.
    pub missed_calls: u64,
}

/// The hook; dropping it unloads it.
pub struct Hook {
    kernel: Ebpf,
    runs: RingBuf<MapData>,
    copies: Vec<PerfEventArrayBuffer<MapData>>,
    open: PerCpuArray<MapData, [u8; RUN_BYTES]>,
    counts: PerCpuArray<MapData, u64>,
    told: OpenRuns,
    profiles: Vec<Profile>,
    names: Names,
}

/// Names of the kernel's numbers.
struct Names {
    reasons: BTreeMap<u32, Arc<str>>,
    symbols: Symbols,
    /// Name of a reason that was not reported.
    unspecified: Arc<str>,
    has_reason: bool,
}

const PROGRAM: &str = "on_drop";
const TRACEPOINT: &str = "kfree_skb";

/// Number of pages of each processor's buffer of copies: 120 trains of 64 KiB, enough until the buffer is
/// drained.
const COPY_PAGES: usize = 2_048;

/// Indices of the hook's counts, as in `hook.bpf.c`.
#[derive(Clone, Copy)]
enum Count {
    Calls = 0,
    Unreported = 4,
    NotCopied = 6,
}

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/hook.bpf.o"));

impl Hook {
    /// Loads the hook into the kernel and activates it.
    ///
    /// # Errors
    /// [`HookError`]: usually a lack of permission, or a kernel that is too old.
    pub fn load(options: &Options) -> Result<Self, HookError> {
        let bytes = std::fs::read("/sys/kernel/btf/vmlinux").map_err(HookError::NoTypes)?;
        let types = Types::parse(&bytes).ok_or(HookError::TypesNotUnderstood)?;
        let values = types.tracepoint_values(TRACEPOINT).ok_or(HookError::NoTracepoint)?;
        // The packet and the place first, then the reason, then the socket.
        let has_reason = values >= 3 && !options.pretends_no_reason;
        let has_socket = values >= 4 && !options.pretends_no_socket;
        let mut kernel = load(options, has_reason, has_socket)?;
        let maps = take_maps(&mut kernel).map_err(|error| refused(&*error))?;
        let (runs, copies, open, counts) = maps;
        let names = Names::read(&types, has_reason);
        let (told, profiles) = (OpenRuns::default(), options.profiles.clone());
        Ok(Self { kernel, runs, copies, open, counts, told, profiles, names })
    }

    /// Appends the datagrams freed unread since the last call.
    ///
    /// # Errors
    /// If the kernel does not return the runs that are still open.
    pub fn drain(&mut self, events: &mut Vec<DropEvent>) -> io::Result<()> {
        while let Some(bytes) = self.runs.next() {
            let Some(run) = read_run(&bytes) else { continue };
            // A drop that never was an open run has no serial.
            let rest = if run.serial == 0 { Some(run) } else { self.told.close(run) };
            events.extend(rest.map(|run| self.names.event(&run)));
        }
        for copies in &mut self.copies {
            copies.for_each(|event| {
                // Samples lost here were refused to the hook, which counts them.
                let PerfEvent::Sample { head, tail } = event else { return };
                let runs = read_copy(&[head, tail].concat(), &self.profiles);
                events.extend(runs.iter().map(|run| self.names.event(run)));
            });
        }
        let open = self.open.get(&0, 0).map_err(io::Error::other)?;
        for run in open.iter().filter_map(|bytes| read_run(bytes)) {
            events.extend(self.told.look(run).map(|run| self.names.event(&run)));
        }
        Ok(())
    }

    /// Returns the counts of what it could not see or report.
    ///
    /// # Errors
    /// If the kernel does not return its counts.
    pub fn unseen(&self) -> io::Result<Unseen> {
        Ok(Unseen {
            unreported: self.count(Count::Unreported)?,
            not_copied: self.count(Count::NotCopied)?,
            missed_calls: missed_calls(&self.kernel, PROGRAM)?,
        })
    }

    /// Returns how often the kernel called it: once for each packet freed unread, of any protocol.
    ///
    /// # Errors
    /// If the kernel does not return its counts.
    pub fn calls(&self) -> io::Result<u64> {
        self.count(Count::Calls)
    }

    /// Returns whether the kernel reports why it freed a datagram: since Linux 5.17.
    #[must_use]
    pub const fn has_reasons(&self) -> bool {
        self.names.has_reason
    }

    /// Returns whether places in the kernel have names: not without `CAP_SYSLOG`.
    #[must_use]
    pub fn has_locations(&self) -> bool {
        !self.names.symbols.is_empty()
    }

    fn count(&self, which: Count) -> io::Result<u64> {
        sum_of(&self.counts, which as u32)
    }
}

impl AsFd for Hook {
    /// Returns a descriptor that is readable when runs are complete; open runs are available without it.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.runs.as_fd()
    }
}

impl core::fmt::Debug for Hook {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.debug_struct("Hook").field("profiles", &self.profiles).finish_non_exhaustive()
    }
}

fn load(options: &Options, has_reason: bool, has_socket: bool) -> Result<Ebpf, HookError> {
    let filter = Filter::new(&options.ports, &options.profiles)?;
    let switch = |is_on: bool| u32::from(is_on);
    let (has_reason, has_socket, joins) = (switch(has_reason), switch(has_socket), switch(options.joins));
    let btf = Btf::from_sys_fs().map_err(|_| HookError::TypesNotUnderstood)?;
    let mut loader = EbpfLoader::new();
    filter.set(&mut loader);
    let mut kernel = loader
        .btf(Some(&btf))
        .override_global("HAS_REASON", &has_reason, true)
        .override_global("HAS_SOCKET", &has_socket, true)
        .override_global("JOINS", &joins, true)
        .load(OBJECT)
        .map_err(|error| refused(&error))?;
    attach(&mut kernel, PROGRAM, TRACEPOINT, &btf)?;
    Ok(kernel)
}

type Maps = (
    RingBuf<MapData>,
    Vec<PerfEventArrayBuffer<MapData>>,
    PerCpuArray<MapData, [u8; RUN_BYTES]>,
    PerCpuArray<MapData, u64>,
);

fn take_maps(kernel: &mut Ebpf) -> Result<Maps, Box<dyn core::error::Error>> {
    let mut take = |name: &str| kernel.take_map(name).ok_or_else(|| format!("it has no map {name}"));
    let mut arrays = PerfEventArray::try_from(take("COPIES")?)?;
    let processors = aya::util::online_cpus().map_err(|(what, error)| format!("{what}: {error}"))?;
    let open = |processor| arrays.open(processor, Some(COPY_PAGES));
    let copies = processors.into_iter().map(open).collect::<Result<_, _>>()?;
    Ok((
        RingBuf::try_from(take("RUNS")?)?,
        copies,
        PerCpuArray::try_from(take("OPEN")?)?,
        PerCpuArray::try_from(take("COUNTS")?)?,
    ))
}

impl Names {
    fn read(types: &Types<'_>, has_reason: bool) -> Self {
        const PREFIX: &str = "SKB_DROP_REASON_";
        let reasons = types.enumeration("skb_drop_reason").into_iter();
        let reasons = reasons
            .map(|(number, name)| (number, Arc::from(name.strip_prefix(PREFIX).unwrap_or(name))))
            .collect();
        // A user who may not read it may not see places either.
        let symbols = Symbols::parse(&std::fs::read_to_string("/proc/kallsyms").unwrap_or_default());
        Self { reasons, symbols, unspecified: Arc::from("NOT_SPECIFIED"), has_reason }
    }

    fn reason(&self, number: u32) -> Arc<str> {
        if !self.has_reason {
            return Arc::clone(&self.unspecified);
        }
        self.reasons.get(&number).map_or_else(|| format!("REASON_{number}").into(), Arc::clone)
    }

    fn event(&self, run: &Run) -> DropEvent {
        let known = |number: u32| (number != 0).then_some(number);
        let fragment = Fragment { id: run.ip_id, is_first: !run.is_later_fragment() };
        let numbers =
            Numbers { stream: run.stream, incarnation: run.incarnation, first: run.first, last: run.last };
        DropEvent {
            at: Instant::from_nanos(run.begin_ns),
            reason: self.reason(run.reason),
            location: self.symbols.name(run.location),
            socket: (run.cookie != 0).then_some(run.cookie),
            namespace: known(run.namespace),
            device: known(run.device),
            is_incoming: run.is_incoming(),
            source: run.source,
            destination: run.destination,
            fragment: run.is_fragment().then_some(fragment),
            numbers: run.is_numbered().then_some(numbers),
            count: run.count(),
        }
    }
}
