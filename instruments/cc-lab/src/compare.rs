//! Comparison of congestion controls on one path: goodput of each alone and against Reno, over several seeds.

use core::fmt;
use core::time::Duration;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use congestion::{BUILT_IN, Factory, UnknownControl, named};
use serde::Serialize;

use crate::report::{ComparisonReport, Conditions};
use crate::{Flow, Hosts, Outcome, Packets, Path, Run};

/// A congestion control that takes part.
#[derive(Clone, Debug)]
pub struct Competitor {
    /// Name of the control.
    pub name: String,
    /// Options as `alpha=20&gamma=0.5`; empty if there are none.
    pub options: String,
    /// Factory of the control.
    pub control: Arc<dyn Factory>,
}

/// Congestion controls to compare on one path.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Path that the flows share.
    pub path: Path,
    /// Controls to compare.
    pub competitors: Vec<Competitor>,
    /// Number of flows of each control that share the path.
    pub flows: usize,
    /// Duration of each run.
    pub duration: Duration,
    /// Time at the beginning that is excluded from the means.
    pub warm_up: Duration,
    /// Behaviour of the hosts.
    pub hosts: Hosts,
    /// Seeds; each is a run.
    pub seeds: Vec<u64>,
    /// True if each control also runs against a Reno flow, to see how much that flow keeps.
    pub against_reno: bool,
}

/// Result of a control: medians over the seeds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Standing {
    /// Name of the control.
    pub cc: String,
    /// Options; empty if there are none.
    pub options: String,
    /// Total goodput of its flows.
    pub goodput_bits_per_second: f64,
    /// Total goodput with the worst seed.
    pub least_goodput_bits_per_second: f64,
    /// Total goodput with the best seed.
    pub most_goodput_bits_per_second: f64,
    /// Goodput as a share of the maximum.
    pub utilisation: f64,
    /// Queueing delay at the bottleneck, mean over time.
    pub queueing_delay_seconds: f64,
    /// 95th percentile of the queueing delay over time.
    pub queueing_delay_p95_seconds: f64,
    /// Share of the sent packets that was lost.
    pub loss: f64,
    /// Fairness among its flows (Jain's index).
    pub jain_index: f64,
    /// Goodput of a Reno flow that competes with this control, relative to one that competes with another Reno: at
    /// 1 the control takes nothing from it. `None` if it was not requested.
    pub friendliness_to_reno: Option<f64>,
    /// Number of runs behind the median.
    pub seeds: usize,
    /// Outcome of everything its flows sent, over all runs.
    pub packets: Packets,
    /// Times the control asked for an impossible window or rate, over all runs.
    pub absurd_policies: u64,
    /// Outcome of the first seed.
    #[serde(skip)]
    pub first: Outcome,
}

/// Share of the path's rate that controls with a constant rate use in total: the rest is for headers,
/// acknowledgements and some room.
const SHARE_PERCENT: u64 = 95;

/// One run of a comparison, and its purpose.
struct Job {
    run: Run,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    /// Flows of one control.
    Alone(usize),
    /// One flow of the control and one Reno flow.
    AgainstReno(usize),
    /// Two Reno flows.
    RenoAgainstReno,
}

impl Competitor {
    /// Creates a competitor with a built-in control, such as `fast` or `fast?alpha=20`.
    ///
    /// # Errors
    /// If there is no such control, or it does not accept an option.
    pub fn named(text: &str) -> Result<Self, UnknownControl> {
        let (name, options) = text.split_once('?').unwrap_or((text, ""));
        let control = Arc::from(named(name, options)?);
        Ok(Self { name: name.to_owned(), options: options.to_owned(), control })
    }

    /// Creates a competitor with a custom control.
    #[must_use]
    pub fn of(name: &str, control: Arc<dyn Factory>) -> Self {
        Self { name: name.to_owned(), options: String::new(), control }
    }

    /// Creates a competitor as [`named`](Self::named); a control that needs a rate and was given none gets the
    /// share of the path that one of `flows` can have.
    ///
    /// # Errors
    /// If there is no such control, or it does not accept an option.
    pub fn at_share(text: &str, path: &Path, flows: usize) -> Result<Self, UnknownControl> {
        Self::named(text).or_else(|error| {
            let rate_bits_per_s = path.rate_bits_per_s * SHARE_PERCENT / 100 / flows.max(1) as u64;
            let separator = if text.contains('?') { '&' } else { '?' };
            // If the text is wrong with a rate, too, the error without one is returned.
            Self::named(&format!("{text}{separator}rate={}k", rate_bits_per_s / 1_000)).map_err(|_| error)
        })
    }

    /// Returns all built-in controls, each as [`at_share`](Self::at_share).
    #[must_use]
    pub fn all(path: &Path, flows: usize) -> Vec<Self> {
        let make = |name| Self::at_share(name, path, flows).expect("it is built in, and has its rate");
        BUILT_IN.iter().map(|choice| make(choice.name)).collect()
    }

    fn flow(&self) -> Flow {
        Flow::of(&self.to_string(), Arc::clone(&self.control))
    }
}

impl fmt::Display for Competitor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&label(&self.name, &self.options))
    }
}

/// Returns the label of a control with its options, as it was requested.
pub(crate) fn label(name: &str, options: &str) -> String {
    if options.is_empty() { name.to_owned() } else { format!("{name}?{options}") }
}

impl Comparison {
    /// Creates a comparison of one flow each, with three seeds on ideal hosts.
    #[must_use]
    pub fn new(path: Path, competitors: Vec<Competitor>) -> Self {
        let duration = Duration::from_secs(20);
        let (warm_up, hosts) = (duration / 4, Hosts::Ideal);
        Self {
            path,
            competitors,
            flows: 1,
            duration,
            warm_up,
            hosts,
            seeds: vec![1, 2, 3],
            against_reno: true,
        }
    }

    /// Plays all runs on all processors and returns the result of each control in order; `None` if `goes_on`
    /// returns false.
    ///
    /// `goes_on` receives the completed share of the work, on a worker thread.
    pub fn play(&self, goes_on: impl Fn(f64) -> bool + Sync) -> Option<ComparisonReport> {
        let jobs = self.jobs();
        let outcomes = play_all(&jobs, &goes_on)?;
        let of = |wanted: What| -> Vec<&Outcome> {
            jobs.iter()
                .zip(&outcomes)
                .filter(|(job, _)| job.what == wanted)
                .map(|(_, outcome)| outcome)
                .collect()
        };
        let fair: Vec<f64> =
            of(What::RenoAgainstReno).iter().map(|outcome| outcome.goodput_bits_per_s() / 2.0).collect();
        let standing = |(index, competitor): (usize, &Competitor)| {
            let alone = of(What::Alone(index));
            let against_reno = of(What::AgainstReno(index));
            let kept = against_reno
                .iter()
                .zip(&fair)
                .map(|(outcome, fair)| outcome.flows[1].goodput_bits_per_s / fair);
            Standing::of(competitor, &alone, kept)
        };
        let standings = self.competitors.iter().enumerate().map(standing).collect();
        Some(ComparisonReport { conditions: Conditions::of(self), standings })
    }

    fn jobs(&self) -> Vec<Job> {
        let reno = Flow::named("reno", "").expect("it is built in");
        let mut jobs = Vec::new();
        for seed in &self.seeds {
            let mut push = |flows, what| jobs.push(Job { run: self.run(flows, *seed), what });
            if self.against_reno {
                push(vec![reno.clone(); 2], What::RenoAgainstReno);
            }
            for (index, competitor) in self.competitors.iter().enumerate() {
                push(vec![competitor.flow(); self.flows], What::Alone(index));
                if self.against_reno {
                    push(vec![competitor.flow(), reno.clone()], What::AgainstReno(index));
                }
            }
        }
        jobs
    }

    /// Flows begin slightly apart, differently for each seed: synchronised flows would lose synchronously.
    fn run(&self, mut flows: Vec<Flow>, seed: u64) -> Run {
        let mut random = units::Random::for_purpose(seed, "starts");
        for flow in &mut flows {
            flow.starts = self.path.round_trip.mul_f64(random.unit());
        }
        Run {
            flows,
            seed,
            warm_up: self.warm_up,
            hosts: self.hosts,
            ..Run::new(self.path.clone(), Vec::new(), self.duration)
        }
    }
}

/// Plays jobs on all processors; the outcomes are in the order of the jobs.
fn play_all(jobs: &[Job], goes_on: &(impl Fn(f64) -> bool + Sync)) -> Option<Vec<Outcome>> {
    let outcomes: Mutex<Vec<Option<Outcome>>> = Mutex::new(vec![None; jobs.len()]);
    let (next, stopped) = (AtomicUsize::new(0), AtomicBool::new(false));
    let progress: Mutex<Vec<f64>> = Mutex::new(vec![0.0; jobs.len()]);
    let work = || {
        while !stopped.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { return };
            let outcome = job.run.play(|passed| {
                let done: f64 = {
                    let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
                    progress[index] = passed.as_secs_f64() / job.run.duration.as_secs_f64();
                    progress.iter().sum()
                };
                goes_on(done / jobs.len() as f64) && !stopped.load(Ordering::Relaxed)
            });
            if outcome.is_none() {
                stopped.store(true, Ordering::Relaxed);
            }
            outcomes.lock().unwrap_or_else(PoisonError::into_inner)[index] = outcome;
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(jobs.len()) {
            scope.spawn(work);
        }
    });
    outcomes.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect()
}

impl Standing {
    fn of(competitor: &Competitor, alone: &[&Outcome], kept: impl Iterator<Item = f64>) -> Self {
        let over = |of: fn(&Outcome) -> f64| median(alone.iter().map(|outcome| of(outcome)).collect());
        let goodputs = || alone.iter().map(|outcome| outcome.goodput_bits_per_s());
        Self {
            cc: competitor.name.clone(),
            options: competitor.options.clone(),
            goodput_bits_per_second: over(Outcome::goodput_bits_per_s),
            least_goodput_bits_per_second: goodputs().fold(f64::INFINITY, f64::min),
            most_goodput_bits_per_second: goodputs().fold(0.0, f64::max),
            utilisation: over(Outcome::utilisation),
            queueing_delay_seconds: over(|outcome| outcome.mean_queue.as_secs_f64()),
            queueing_delay_p95_seconds: over(|outcome| outcome.queue_p95.as_secs_f64()),
            loss: over(Outcome::loss),
            jain_index: over(Outcome::jain_index),
            friendliness_to_reno: Some(median(kept.collect())).filter(|kept| !kept.is_nan()),
            seeds: alone.len(),
            packets: alone.iter().map(|outcome| outcome.packets).sum(),
            absurd_policies: alone
                .iter()
                .flat_map(|outcome| &outcome.flows)
                .map(|flow| flow.stats.absurd_policies)
                .sum(),
            first: alone[0].clone(),
        }
    }

    /// Returns the control's name with its options.
    #[must_use]
    pub fn label(&self) -> String {
        label(&self.cc, &self.options)
    }
}

/// Returns the median: the middle value, or the mean of the two middle ones.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[count / 2],
        count => f64::midpoint(values[count / 2 - 1], values[count / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_in_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![9.0, 1.0, 2.0, 4.0]), 3.0);
    }

    #[test]
    fn every_control_that_is_built_in_takes_part() {
        let all = Competitor::all(&Path::new(10_000_000, Duration::from_millis(10)), 2);
        assert_eq!(all.len(), BUILT_IN.len());
        assert!(all.iter().any(|competitor| competitor.to_string() == "fixed?rate=4750k"));
    }
}
