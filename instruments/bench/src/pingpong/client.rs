//! The client's end of a ping-pong: it begins every exchange, and builds the report.

use probe::Percentiles;
use probe::pingpong::{ExchangeCounts, ExchangeLawError, SizeStep, Until};
use sys::{clock, scheduling};

use super::attendance::Attendance;
use super::link::{self, Attending as _, Exchanged, LinkError, Near, Task, UdpListening};
use super::message::{Finished, Word};
use super::options::{Options, System};
use super::report::{Builder, Measured, Report, Way};
use super::server::Pingpong;
use crate::control::{Begun, Connection, ControlError, Patience, ServerAt, begin};
use crate::options::OptionsError;
use crate::report::{Meter, Watch};

/// Reasons why nothing could be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PingpongError {
    /// An option is invalid.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The server cannot be reached, or is gone.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Messages cannot be exchanged.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A defect of this program.
    #[error(transparent)]
    Law(#[from] ExchangeLawError),
    /// The processor does not exist, or is not available to this program.
    #[error("processor {cpu} cannot be used: {source}\nchoose one that `taskset -cp $$` lists")]
    Cpu {
        /// Number of the processor.
        cpu: usize,
        /// Error of the system.
        source: std::io::Error,
    },
    /// Every protocol was refused.
    #[error("nothing could be measured: {0}")]
    AllSkipped(String),
}

/// Measures with the server at an address and returns the report.
///
/// # Errors
/// [`PingpongError`] if nothing could be measured. Failures after the first size are in the report.
pub fn measure(
    options: &Options,
    server: ServerAt<'_>,
    patience: Patience,
    watch: &mut dyn Watch,
) -> Result<Report, PingpongError> {
    options.check()?;
    link::sweep();
    // On its own thread, whose processor and timer settings end with it.
    std::thread::scope(|scope| {
        let measuring = scope.spawn(|| {
            let _ = clock::lower_timer_slack();
            if let Some(cpu) = options.client_cpu {
                scheduling::pin_to_cpu(cpu).map_err(|source| PingpongError::Cpu { cpu, source })?;
            }
            Client::new(options, begin::<Pingpong>(options, server, options.from, patience)?).run(watch)
        });
        measuring.join().expect("a thread that measures returns its errors")
    })
}

struct Client<'a> {
    options: &'a Options,
    connection: Connection,
    builder: Builder,
    piece_bytes: u32,
    /// Number of the next exchange of this measurement.
    next: u64,
}

impl<'a> Client<'a> {
    fn new(options: &'a Options, begun: Begun) -> Self {
        let mtu_bytes = begun.mtu_bytes();
        let Begun { connection, client, server } = begun;
        let piece_bytes = options.piece_bytes(mtu_bytes, &connection.peer_address());
        let builder = Builder::new(options, connection.peer_address(), client, server, piece_bytes);
        Self { options, connection, builder, piece_bytes, next: 0 }
    }

    fn run(mut self, watch: &mut dyn Watch) -> Result<Report, PingpongError> {
        let mut systems: Vec<&System> = self.options.systems.iter().collect();
        'runs: for run in 0..self.options.repeats {
            let mut refused = Vec::new();
            for system in &systems {
                if watch.cancellation().is_cancelled() {
                    break 'runs;
                }
                match self.way(run, system, watch) {
                    Ok(Some(())) => {}
                    Ok(None) => refused.push(*system),
                    Err(error) if !self.builder.has_any() => return Err(error),
                    Err(error) => {
                        self.builder.break_off(&error.to_string());
                        break 'runs;
                    }
                }
            }
            systems.retain(|system| !refused.contains(system));
        }
        self.connection.part();
        if !self.builder.has_any() && !watch.cancellation().is_cancelled() {
            return Err(PingpongError::AllSkipped(self.builder.refusals()));
        }
        Ok(self.builder.finish(watch.cancellation().is_cancelled()))
    }

    /// Exchanges every size over one system; `None` if it is not available.
    fn way(&mut self, run: u32, system: &System, watch: &mut dyn Watch) -> Result<Option<()>, PingpongError> {
        let mut near = match self.connect(run, system)? {
            Ok(near) => near,
            Err(reason) => {
                self.builder.skip(system, &reason);
                return Ok(None);
            }
        };
        let (meter, mut trouble) = (Meter::begin(), None);
        for size in &self.options.sizes {
            if watch.cancellation().is_cancelled() {
                break;
            }
            let message_bytes = u32::try_from(*size).expect("sizes were checked");
            watch.progress(&|| format!("run {}: {size} bytes over {system}", run + 1));
            let measured = self.size_step(&mut *near, message_bytes, watch)?;
            trouble.clone_from(&measured.trouble);
            let was_cut = measured.was_cut;
            self.builder.add(run, system, message_bytes, measured);
            if trouble.is_some() || was_cut {
                break;
            }
        }
        let used = meter.used();
        self.connection.say(&Word::Finish)?;
        let theirs = self.finished()?;
        let failure = theirs.failure.filter(|_| trouble.is_none());
        self.builder.end_way(Way {
            run,
            system,
            congestion: near.congestion_control(),
            ours: (used, near.evidence()),
            theirs: (theirs.used, theirs.evidence),
            failure,
            notes: near.notes().into_iter().chain(theirs.notes).collect(),
        });
        Ok(Some(()))
    }

    /// Opens both ends of a connection; the inner error is the reason why one of them cannot be opened.
    fn connect(&mut self, run: u32, system: &System) -> Result<Result<Box<dyn Near>, String>, PingpongError> {
        let task = Task {
            options: self.options,
            system,
            piece_bytes: self.piece_bytes,
            local: self.connection.local_address_any_port(),
            peer: self.connection.peer_address().ip(),
            patience: self.connection.patience().silence,
        };
        let listening = (*system == System::Udp).then(|| UdpListening::open(&task)).transpose();
        let listening = match listening {
            Ok(listening) => listening,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let endpoint = listening.as_ref().map(|it| it.endpoint());
        let piece_bytes = self.piece_bytes;
        self.connection.say(&Word::Prepare { run, system: system.clone(), piece_bytes, endpoint })?;
        let (endpoint, token) = match self.connection.hear_word_surely()? {
            Word::Ready { endpoint, token } => (endpoint, token),
            Word::Refused { reason } => return Ok(Err(reason)),
            other => return Err(self.connection.unexpected_word(&other).into()),
        };
        let near: Result<Box<dyn Near>, LinkError> = match listening {
            None => link::connect(&task, endpoint, token),
            Some(listening) => listening.connect(&task, endpoint, token).map(|near| Box::new(near) as _),
        };
        match near {
            Ok(near) => Ok(Ok(near)),
            Err(error) => self.give_up().map(|()| Err(error.to_string())),
        }
    }

    /// Exchanges one size.
    fn size_step(
        &mut self,
        near: &mut dyn Near,
        message_bytes: u32,
        watch: &dyn Watch,
    ) -> Result<Measured, PingpongError> {
        self.connection.say(&Word::SizeStep { message_bytes, first: self.next })?;
        match self.connection.hear_word_surely()? {
            Word::SizeStepBegun => {}
            other => return Err(self.connection.unexpected_word(&other).into()),
        }
        let (mut counts, mut times, mut trouble) = (ExchangeCounts::default(), Vec::new(), None);
        let mut attendance = Attendance::new(&mut self.connection, watch);
        let mut was_cut = false;
        let sent_again = near.retransmits();
        let mut size_step = SizeStep::begin(
            Until { time: self.options.time, exchanges: self.options.exchanges },
            clock::monotonic(),
        );
        while !was_cut && size_step.goes_on(clock::monotonic()) {
            if !attendance.goes_on() {
                was_cut = true;
                break;
            }
            let exchange = self.next;
            self.next += 1;
            counts.sent += 1;
            let outcome = near.exchange(exchange, message_bytes, &mut attendance);
            let is_measured = size_step.exchanged(clock::monotonic());
            match outcome {
                Ok(Exchanged::Completed(time)) => {
                    counts.completed += 1;
                    if is_measured {
                        times.push(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
                    }
                }
                Ok(Exchanged::GivenUp) => counts.given_up += 1,
                Ok(Exchanged::Cut) => {
                    counts.given_up += 1;
                    was_cut = true;
                }
                Err(error) => {
                    counts.given_up += 1;
                    trouble = Some(error.to_string());
                    break;
                }
            }
        }
        let answered = match attendance.end().and_then(|()| self.end_size_step()) {
            Ok(answered) => Some(answered),
            Err(error) if counts.sent == 0 => return Err(error.into()),
            // The server is gone: only this end's counts of the exchanges are known.
            Err(error) => {
                trouble = Some(error.to_string());
                None
            }
        };
        Ok(Measured {
            account: counts.close(answered)?,
            round_trips: Percentiles::of(&mut times),
            retransmits: near.retransmits().zip(sent_again).map(|(now, before)| now.saturating_sub(before)),
            trouble,
            was_cut,
        })
    }

    /// Returns the number of messages of the size step that the server answered.
    fn end_size_step(&mut self) -> Result<u64, ControlError> {
        self.connection.say(&Word::SizeStepEnd)?;
        match self.connection.hear_word_surely()? {
            Word::SizeStepEnded { answered } => Ok(answered),
            other => Err(self.connection.unexpected_word(&other)),
        }
    }

    fn finished(&mut self) -> Result<Finished, PingpongError> {
        match self.connection.hear_word_surely()? {
            Word::Finished(finished) => Ok(finished),
            other => Err(self.connection.unexpected_word(&other).into()),
        }
    }

    /// Cancels a connection whose near end cannot be opened: the server need not wait for it.
    fn give_up(&mut self) -> Result<(), PingpongError> {
        self.connection.say(&Word::Finish)?;
        loop {
            match self.connection.hear_word_surely()? {
                // It crossed the message that this end gave up.
                Word::Refused { .. } => {}
                Word::Finished(_) => return Ok(()),
                other => return Err(self.connection.unexpected_word(&other).into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use sys::Cancellation;

    use super::super::server::TEST;
    use super::*;
    use crate::control::scene::{PATIENT, Scene};
    use crate::report::State;

    /// Ends the server in the middle of the first size step: the request to stop is checked before the run,
    /// before the size, and then within the step.
    struct Saboteur {
        looks: AtomicU32,
        end: Cancellation,
        never: Cancellation,
    }

    impl Watch for Saboteur {
        fn progress(&mut self, _words: &dyn Fn() -> String) {}

        fn cancellation(&self) -> &Cancellation {
            if self.looks.fetch_add(1, Ordering::Relaxed) >= 3 {
                self.end.cancel();
            }
            &self.never
        }
    }

    #[test]
    fn a_server_that_is_gone_in_the_middle_leaves_the_client_with_what_it_has() {
        for system in [System::Udp, System::Tcp(None), System::Udt(None), System::Shm] {
            let scene = Scene::new(&[TEST], PATIENT);
            let (systems, sizes, time) = (vec![system], vec![1], Duration::from_secs(600));
            let options = Options { systems, sizes, time, exchanges: 10_000_000, ..Options::default() };
            let mut watch = Saboteur {
                looks: AtomicU32::new(0),
                end: scene.end.clone(),
                never: Cancellation::new().unwrap(),
            };
            let report = measure(&options, scene.address.into(), PATIENT, &mut watch).unwrap();
            let [size_step] = &report.size_steps[..] else { panic!("{:?}", report.size_steps) };
            assert!(size_step.account.adds_up() && size_step.account.sent > 0, "{size_step:?}");
            // It is unknown in which direction the last one was lost.
            assert_eq!(
                (size_step.account.lost_forward, size_step.account.lost_reverse),
                (0, 0),
                "{size_step:?}"
            );
            assert!(
                size_step.trouble.as_ref().is_some_and(|it| it.contains("the server was ended")),
                "{size_step:?}"
            );
            assert_eq!((report.end.state, report.end.rows.len()), (State::BrokenOff, 0));
        }
    }
}
