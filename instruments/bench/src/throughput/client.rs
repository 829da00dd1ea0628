//! The client's end of a throughput measurement: it sets the options, and builds the report.

use std::collections::BTreeMap;
use std::path::Path;

use probe::{Answer, NextRate, RateSearch};
use sys::{Cancellation, header_bytes};

use super::loss_free::{LossFree, LossFreeFound};
use super::message::{End, Live, SideResult, Word};
use super::options::{GROUP_KIND, Options, Rate};
use super::report::{Begun, Builder, Ending, Interval, Report, RunReport, Start};
use super::server::Throughput;
use super::side::{GRACE, Heard, Partner, Run, Side, SideError, check_cpu};
use super::transport::{self, Flow, Task, TransportError};
use crate::control::{self, Connection, ControlError, Patience, ServerAt, begin};
use crate::options::{OptionsError, group_for};
use crate::report::{self, PartOf};

/// Observer of a measurement, its intervals and its runs.
pub trait Watch: report::Watch {
    /// Handles the start of the measurement, once both ends are ready.
    fn began(&mut self, _start: &Start) {}

    /// Handles an interval, with the counts of both ends.
    fn interval(&mut self, _interval: &Interval) {}

    /// Handles the end of a run.
    fn run_ended(&mut self, _run: &RunReport) {}
}

impl Watch for PartOf<'_> {}

/// Reasons why nothing could be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ThroughputError {
    /// An option is invalid.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The server cannot be reached.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// A run could not be begun.
    #[error(transparent)]
    Side(#[from] SideError),
}

/// Measures with the server at an address and returns the report; with `loss_free` it searches for the highest
/// rate without loss.
///
/// # Errors
/// [`ThroughputError`] if nothing could be measured. Failures after the first run has begun are in the report.
pub fn measure(
    options: &Options,
    loss_free: Option<&LossFree>,
    server: ServerAt<'_>,
    patience: Patience,
    watch: &mut dyn Watch,
) -> Result<Report, ThroughputError> {
    options.check()?;
    let mut options = options.clone();
    if options.protocol.is_multicast() {
        options.group = Some(group_for(server.address.ip(), options.group, GROUP_KIND)?);
    }
    let options = &options;
    if let Some(loss_free) = loss_free {
        loss_free.check(options)?;
    }
    check_cpu(options.client_cpu)?;
    let mut client = Client::new(options, begin::<Throughput>(options, server, options.from, patience)?);
    watch.began(client.builder.start());
    match loss_free {
        None => client.repeat(watch)?,
        Some(loss_free) => client.search(loss_free, watch)?,
    }
    client.end(watch)
}

struct Client<'a> {
    options: &'a Options,
    runs: Runs<'a>,
    builder: Builder,
}

impl<'a> Client<'a> {
    fn new(options: &'a Options, begun: control::Begun) -> Self {
        let mtu_bytes = begun.mtu_bytes();
        let control::Begun { connection, client, server } = begun;
        let headers = header_bytes(&connection.peer_address());
        let unit_bytes = options.unit_bytes(mtu_bytes.map(|mtu| (mtu as usize).saturating_sub(headers)));
        let begun = Begun { peer: connection.peer_address(), client, server, unit_bytes };
        let builder = Builder::new(options, begun);
        Self { options, runs: Runs { options, connection, unit_bytes }, builder }
    }

    /// Measures the requested number of runs.
    fn repeat(&mut self, watch: &mut dyn Watch) -> Result<(), SideError> {
        let repeats = self.options.repeats;
        for run in 0..repeats {
            watch.progress(&|| format!("run {} of {repeats}", run + 1));
            if !self.run_watched(run, self.options.rate(), watch)? {
                break;
            }
        }
        Ok(())
    }

    /// Searches for the highest rate without loss.
    fn search(&mut self, loss_free: &LossFree, watch: &mut dyn Watch) -> Result<(), SideError> {
        let mut search = RateSearch::new(loss_free.limit, loss_free.resolution, self.options.repeats);
        for run in 0.. {
            let rate = match search.next() {
                NextRate::Try(rate) | NextRate::Confirm(rate) => rate,
                NextRate::Done(found) => {
                    self.builder.found(LossFreeFound::of(found, loss_free, self.options.repeats));
                    break;
                }
            };
            watch.progress(&|| format!("run {}", run + 1));
            if !self.run_watched(run, Rate::Bits(rate), watch)? {
                break;
            }
            search.tell(if self.builder.last_run_holds(loss_free.most_lost_ppm) {
                Answer::Good
            } else {
                Answer::Bad
            });
        }
        Ok(())
    }

    /// Executes one run; returns whether to continue. A first run that cannot begin is an error, a later one
    /// breaks off.
    fn run_watched(&mut self, run: u32, rate: Rate, watch: &mut dyn Watch) -> Result<bool, SideError> {
        match self.run(run, rate, watch) {
            Ok(whole) => {
                watch.run_ended(self.builder.last_run().expect("a run was just added"));
                Ok(whole && !watch.cancellation().is_cancelled())
            }
            Err(error) if !self.builder.has_begun() => Err(error),
            Err(error) => {
                self.builder.break_off(&error.to_string());
                Ok(false)
            }
        }
    }

    /// Executes one run; returns whether it was complete.
    fn run(&mut self, run: u32, rate: Rate, watch: &mut dyn Watch) -> Result<bool, SideError> {
        let flows = self.runs.prepare(run, rate)?;
        self.builder.begin_run(run, rate);
        let cancellation = watch.cancellation().clone();
        let builder = &mut self.builder;
        let mut interval = |mark, ours, theirs| watch.interval(builder.interval(mark, ours, theirs));
        let Counts { ours, theirs, ending } = self.runs.run(flows, rate, &cancellation, &mut interval)?;
        let is_whole = ending == Ending::Whole;
        self.builder.end_run(ours, theirs, ending);
        Ok(is_whole)
    }

    fn end(self, watch: &dyn Watch) -> Result<Report, ThroughputError> {
        self.runs.connection.part();
        Ok(self.builder.finish(watch.cancellation().is_cancelled()))
    }
}

/// The client's end of runs, without a report of them.
pub(crate) struct Runs<'a> {
    pub(crate) options: &'a Options,
    pub(crate) connection: Connection,
    pub(crate) unit_bytes: usize,
}

/// Counts of both ends for a run.
pub(crate) struct Counts {
    pub(crate) ours: SideResult,
    /// Counts of the server; none if it is gone.
    pub(crate) theirs: Option<SideResult>,
    pub(crate) ending: Ending,
}

impl Runs<'_> {
    /// Opens the flows of a run, at both ends.
    pub(crate) fn prepare(&mut self, run: u32, rate: Rate) -> Result<Vec<Flow>, SideError> {
        let station = self.connection.station().map(Path::to_owned);
        let task = Task {
            options: self.options,
            end: End::Client,
            run,
            token: 0,
            rate,
            unit_bytes: self.unit_bytes,
            local: self.connection.local_address_any_port(),
            peer: self.connection.peer_address().ip(),
            patience: self.connection.patience().silence,
            station: station.as_deref(),
        };
        let listening = transport::of(self.options.protocol).listen(&task)?;
        let endpoints = listening.endpoints();
        self.connection.say(&Word::Prepare { run, rate, unit_bytes: self.unit_bytes, endpoints })?;
        let (theirs, token) = match self.connection.hear_word_surely()? {
            Word::Ready { endpoints, token } => (endpoints, token),
            other => return Err(self.connection.unexpected_word(&other).into()),
        };
        let task = Task { token, ..task };
        task.check_endpoints(&theirs).map_err(TransportError::from)?;
        let flows = listening.connect(&task, &theirs)?;
        self.connection.say(&Word::Start)?;
        if self.options.delay_percentiles {
            match self.connection.hear_word_surely()? {
                Word::Start => {}
                other => return Err(self.connection.unexpected_word(&other).into()),
            }
        }
        Ok(flows)
    }

    /// Executes a run; `interval` gets the counts of both ends at each mark.
    pub(crate) fn run(
        &mut self,
        flows: Vec<Flow>,
        rate: Rate,
        cancellation: &Cancellation,
        interval: &mut OnInterval<'_>,
    ) -> Result<Counts, SideError> {
        let Self { options, connection, unit_bytes } = self;
        let (cpu, unit_bytes) = (options.client_cpu, *unit_bytes);
        let side = Side::start(&Run { options, rate, unit_bytes, cpu, grace: GRACE }, flows)?;
        let mut measuring = Measuring {
            interval,
            ours: BTreeMap::new(),
            theirs: BTreeMap::new(),
            done: None,
            is_server_ending: false,
        };
        let (outcome, ours) = side.run(connection, cancellation, &mut measuring);
        let outcome = outcome.and_then(|()| measuring.wait_for_done(connection));
        let theirs = measuring.done.take();
        measuring.flush(&ours, theirs.as_ref());
        let ended_by_server = measuring.is_server_ending.then(|| "the server was ended".to_owned());
        let was_stopped = cancellation.is_cancelled();
        let failed = || failures(&ours, theirs.as_ref());
        let trouble = outcome.err().map(|error| error.to_string()).or(ended_by_server).or_else(failed);
        let ending = match trouble {
            Some(trouble) => Ending::Trouble(trouble),
            None if was_stopped => Ending::Stopped,
            None => Ending::Whole,
        };
        Ok(Counts { ours, theirs, ending })
    }
}

/// Observer of a mark: its index, and the counts of the client and of the server up to it.
type OnInterval<'a> = dyn FnMut(usize, Option<Live>, Option<Live>) + 'a;

/// Describes the failures at either end; `None` if there are none.
fn failures(ours: &SideResult, theirs: Option<&SideResult>) -> Option<String> {
    let of = |side: &SideResult, name: &str| {
        side.failures.iter().map(|failure| format!("at the {name}: {failure}")).collect::<Vec<_>>()
    };
    let mut all = of(ours, "client");
    all.extend(theirs.into_iter().flat_map(|side| of(side, "server")));
    (!all.is_empty()).then(|| all.join("; "))
}

/// Joins the intervals of both ends.
struct Measuring<'a> {
    interval: &'a mut OnInterval<'a>,
    ours: BTreeMap<usize, Live>,
    theirs: BTreeMap<usize, Live>,
    done: Option<SideResult>,
    /// True if the server asked to end the run early.
    is_server_ending: bool,
}

impl Measuring<'_> {
    /// Passes on the intervals that both ends have reported.
    fn join(&mut self) {
        while let Some(mark) = self.ours.keys().next().copied().filter(|mark| self.theirs.contains_key(mark))
        {
            self.hand_on(mark);
        }
    }

    /// Passes on the intervals that one end alone has reported, at the end of a run. The other began a little
    /// later and so has fewer intervals, but no smaller totals: beyond its totals nothing happened there. Only
    /// an end that did not report those is missing.
    fn flush(&mut self, ours: &SideResult, theirs: Option<&SideResult>) {
        while let Some(mark) = self.ours.keys().chain(self.theirs.keys()).min().copied() {
            match (self.ours.get(&mark), self.theirs.get(&mark)) {
                (Some(live), None) => {
                    let told = theirs.map(|side| Live::at_end(side, mark, live.at_ns));
                    self.theirs.extend(told.map(|live| (mark, live)));
                }
                (None, Some(live)) => {
                    self.ours.insert(mark, Live::at_end(ours, mark, live.at_ns));
                }
                _ => {}
            }
            self.hand_on(mark);
        }
    }

    fn hand_on(&mut self, mark: usize) {
        let (ours, theirs) = (self.ours.remove(&mark), self.theirs.remove(&mark));
        (self.interval)(mark, ours, theirs);
    }

    fn wait_for_done(&mut self, connection: &mut Connection) -> Result<(), SideError> {
        let patience = connection.patience().silence;
        let until = std::time::Instant::now() + patience;
        while self.done.is_none() {
            match connection.hear_word(until)? {
                None => {
                    return Err(
                        ControlError::Silent { peer: connection.peer_address(), silence: patience }.into()
                    );
                }
                // The senders' final counts, which no receiver waits for any more.
                Some(Word::Sent(_)) => {}
                Some(word) => drop(self.hear(word, connection)?),
            }
        }
        Ok(())
    }
}

impl Partner for Measuring<'_> {
    fn mark(&mut self, live: Live, _connection: &mut Connection) -> Result<(), ControlError> {
        self.ours.insert(live.mark, live);
        self.join();
        Ok(())
    }

    fn hear(&mut self, word: Word, connection: &mut Connection) -> Result<Heard, ControlError> {
        match word {
            Word::Live(live) => {
                self.theirs.insert(live.mark, live);
                self.join();
                Ok(Heard::Fine)
            }
            Word::Done(result) => {
                self.done = Some(*result);
                Ok(Heard::Fine)
            }
            // The server is being ended.
            Word::Stop => {
                self.is_server_ending = true;
                Ok(Heard::Stop)
            }
            other => Err(connection.unexpected_word(&other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_state::HostState;
    use crate::throughput::message::{Count, FlowKey, FlowResult};
    use crate::throughput::options::Way;
    use crate::throughput::report::Figures;

    fn side(failures: &[&str]) -> SideResult {
        SideResult { failures: failures.iter().map(ToString::to_string).collect(), ..SideResult::default() }
    }

    /// Returns the sent and received amounts of each interval, when the client's end counted up to the marks
    /// `ours` and the server's up to `theirs`.
    fn intervals(ours: &[u64], theirs: &[u64], total: Option<u64>) -> Vec<(Option<u64>, Option<u64>)> {
        const INTERVAL: std::time::Duration = std::time::Duration::from_millis(50);
        let host = HostState::look(std::net::IpAddr::from([127, 0, 0, 1]));
        let options = Options { interval: INTERVAL, duration: INTERVAL * 4, ..Options::default() };
        let begun = Begun {
            peer: std::net::SocketAddr::from(([127, 0, 0, 1], 1)),
            client: host.clone(),
            server: host,
            unit_bytes: 100,
        };
        let mut builder = Builder::new(&options, begun);
        builder.begin_run(0, options.rate());
        let sender = FlowKey::sender(Way::Forward, 0);
        let receiver = FlowKey { receiver: Some(0), ..sender };
        let figures = |key: FlowKey, bytes: &[u64]| {
            let of = |(mark, bytes): (usize, &u64)| {
                let at_ns = 50_000_000 * (mark as u64 + 1);
                let count = Count { bytes: *bytes, ..Count::default() };
                (mark, Live { mark, at_ns, flows: vec![(key, count)] })
            };
            bytes.iter().enumerate().map(of).collect::<BTreeMap<_, _>>()
        };
        let result = |key: FlowKey, bytes: u64| {
            let total = Count { bytes, ..Count::default() };
            let flow = FlowResult { total, ..FlowResult::example(key.receiver) };
            SideResult { flows: vec![flow], ..SideResult::default() }
        };
        let mut count = 0;
        let mut interval = |mark, ours, theirs| {
            builder.interval(mark, ours, theirs);
            count += 1;
        };
        let mut measuring = Measuring {
            interval: &mut interval,
            ours: figures(sender, ours),
            theirs: figures(receiver, theirs),
            done: None,
            is_server_ending: false,
        };
        let (ours, theirs) =
            (result(sender, *ours.last().unwrap()), total.map(|bytes| result(receiver, bytes)));
        measuring.join();
        measuring.flush(&ours, theirs.as_ref());
        let report = builder.finish(false);
        assert_eq!(count, report.intervals.len());
        let bytes = |figures: Option<Figures>| figures.map(|it| it.bytes);
        let of = |it: &Interval| (bytes(it.sums.sum_sent), bytes(it.sums.sum_received));
        report.intervals.iter().map(of).collect()
    }

    #[test]
    fn an_end_that_began_later_is_in_every_interval() {
        let all = intervals(&[10, 20, 30, 40], &[5], Some(40));
        let some = |sent, received| (Some(sent), Some(received));
        assert_eq!(all, [some(10, 5), some(10, 35), some(10, 0), some(10, 0)]);
        let whole = intervals(&[10, 20], &[10, 19], Some(20));
        assert_eq!(whole, [some(10, 10), some(10, 9)]);
        let gone = intervals(&[10, 20], &[10], None);
        assert_eq!(gone, [some(10, 10), (Some(10), None)], "of what was not told nothing is said");
    }

    #[test]
    fn a_failure_at_either_end_is_trouble() {
        assert_eq!(failures(&side(&[]), Some(&side(&[]))), None);
        assert_eq!(failures(&side(&["a"]), None).unwrap(), "at the client: a");
        assert_eq!(
            failures(&side(&["a"]), Some(&side(&["b"]))).unwrap(),
            "at the client: a; at the server: b"
        );
    }
}
