//! Steering: what a step costs an app that nothing is asked of, and the time from a command to its answer.
//!
//! The app is cyclic and runs in this process, its sender connects over loopback. An answer comes when the change is in a
//! sample, and intent and outcome are on disk: so its delay has a part of a cycle and two writes. `beyond_cycle` is the
//! delay less one cycle; cases of `memory` have the log there. Options: [`Bench`].

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use peers::{Bench, Extent, quantiles};
use tallycast::cyclic::AppReport;
use tallycast::steering::{Answer, Conclusion, Parameter, Remote, SetOptions, Totals, Value, find};
use tallycast::{Bus, Dtype, Node, now};

const APP: &str = "bench/steered";
/// Time within which the app is found.
const PATIENCE: Duration = Duration::from_secs(10);
/// Steps that are timed together: one takes little longer than reading the clock.
const STEPS_AT_ONCE: u32 = 100;
/// Senders beside each other, where a rate is measured.
const SENDERS: usize = 10;

fn main() -> Result<()> {
    let bench = Bench::begin("steer", Extent { runs: 5, seconds: 5.0 }, Extent { runs: 1, seconds: 1.0 })?;
    let Extent { runs, seconds } = bench.extent;
    bench.introduce(&format!(
        "medians of {runs} runs of {seconds} s, one command after the other; logs on disk"
    ));
    let run_time = Duration::from_secs_f64(seconds);
    if let Some(case) = bench.case("step".to_owned()) {
        let taken = case.in_turn(&mut [("tallycast", ())], |()| empty_steps(run_time))?;
        for (metric, place) in [("empty_p50", 0), ("empty_p99", 1)] {
            case.row("tallycast", metric, "ns", taken[0].runs.iter().map(|quantiles| quantiles[place]));
        }
    }
    for period in [Duration::from_millis(10), Duration::from_millis(1)] {
        for (place, folder) in [("", std::env::temp_dir()), ("/memory", "/dev/shm".into())] {
            let name = format!("cycle-{}ms{place}", period.as_millis());
            let Some(case) = bench.case(name) else { continue };
            let taken = case.in_turn(&mut [("tallycast", ())], |()| delays(period, &folder, run_time))?;
            for (metric, place) in [("answered_p50", 0), ("answered_p99", 1)] {
                case.row("tallycast", metric, "ms", taken[0].runs.iter().map(|run| 1e3 * run[place]));
            }
            let beyond = taken[0].runs.iter().map(|run| 1e3 * (run[1] - period.as_secs_f64()));
            case.row("tallycast", "beyond_cycle_p99", "ms", beyond);
        }
    }
    if let Some(case) = bench.case(format!("{SENDERS}-senders")) {
        let taken = case.in_turn(&mut [("tallycast", ())], |()| rate(run_time))?;
        case.row("tallycast", "commands", "/s", taken[0].runs.iter().copied());
    }
    Ok(())
}

/// Times the steps of an app that has a parameter and no command; returns the median and p99 of one, in nanoseconds.
fn empty_steps(run_time: Duration) -> Result<[f64; 2]> {
    let (folder, node) = (tempfile::tempdir()?, Node::open(bus()?)?);
    let publisher = node.publisher(APP).rate(1_000).channels([("x", "")]).open()?;
    let mut builder = node.steering(APP);
    builder.listen(Ipv4Addr::LOCALHOST.into(), Some(0)).log(folder.path().join("log"));
    builder.parameter(Parameter::new("gain", 1.0));
    let mut steering = builder.open(publisher.epoch())?;
    let (began, mut times) = (Instant::now(), Vec::new());
    while began.elapsed() < run_time {
        let (time, before) = (now(), Instant::now());
        for _ in 0..STEPS_AT_ONCE {
            steering.step(publisher.next_index(), time);
            steering.done();
        }
        times.push(before.elapsed().as_nanos() as f64 / f64::from(STEPS_AT_ONCE));
    }
    ensure!(steering.close().received == 0, "a command that was not sent");
    Ok(quantiles(times, [0.5, 0.99]))
}

/// Sends commands one after the other; returns the median and p99 of the time until the answer, in seconds.
fn delays(period: Duration, logs: &Path, run_time: Duration) -> Result<[f64; 2]> {
    let app = App::start(period, logs)?;
    let mut remote = app.connect()?;
    let (began, mut times) = (Instant::now(), Vec::new());
    for number in 0_u32.. {
        let before = Instant::now();
        if before - began > run_time {
            break;
        }
        set(&mut remote, number)?;
        times.push(before.elapsed().as_secs_f64());
    }
    app.end(times.len())?;
    Ok(quantiles(times, [0.5, 0.99]))
}

/// Sends commands from several connections at once, for one parameter each; returns the commands applied a second.
fn rate(run_time: Duration) -> Result<f64> {
    let app = App::start(Duration::from_millis(1), &std::env::temp_dir())?;
    let remotes = (0..SENDERS).map(|_| app.connect()).collect::<Result<Vec<_>>>()?;
    let began = Instant::now();
    let sent = std::thread::scope(|scope| {
        let send = |mut remote: Remote, place: usize| {
            let mut count = 0_u32;
            while began.elapsed() < run_time {
                let value = Value::parse(Dtype::F8, &[], &count.to_string())?;
                applied(remote.set(&parameter(place), value, &SetOptions::default())?.1)?;
                count += 1;
            }
            Ok::<_, anyhow::Error>(count as usize)
        };
        let threads: Vec<_> = remotes
            .into_iter()
            .enumerate()
            .map(|(place, remote)| scope.spawn(move || send(remote, place)))
            .collect();
        let joined = threads.into_iter().map(|it| it.join().map_err(|_| anyhow!("a sender panicked"))?);
        joined.sum::<Result<usize>>()
    })?;
    let elapsed = began.elapsed().as_secs_f64();
    app.end(sent)?;
    Ok(sent as f64 / elapsed)
}

/// A cyclic app on a thread.
struct App {
    bus: Bus,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<AppReport>>,
    _folder: tempfile::TempDir,
}

impl App {
    fn start(period: Duration, logs: &Path) -> Result<Self> {
        let (bus, stop) = (bus()?, Arc::<AtomicBool>::default());
        let folder = tempfile::Builder::new().prefix("tallycast-steer-").tempdir_in(logs)?;
        let mut app = Node::open(bus.clone())?.app(APP);
        app.period(period);
        app.steering().listen(Ipv4Addr::LOCALHOST.into(), Some(0)).log(folder.path().join("log"));
        let gains: Vec<_> =
            (0..SENDERS).map(|place| app.parameter(Parameter::new(&parameter(place), 0.0))).collect();
        let output = app.output::<f64>("bench/gain", [("gain", "")]);
        let stopped = Arc::clone(&stop);
        let thread = spawn(move || {
            let report = app.run(move |cycle| {
                let gain: f64 = gains.iter().map(|gain| cycle.parameter(*gain)[0]).sum();
                cycle.write(output, &[gain])?;
                if stopped.load(Ordering::Relaxed) {
                    cycle.stop();
                }
                Ok(())
            })?;
            Ok(report)
        });
        Ok(Self { bus, stop, thread, _folder: folder })
    }

    fn connect(&self) -> Result<Remote> {
        Ok(find(&Node::open(self.bus.clone())?, &APP.parse()?, PATIENCE)?.connect(None)?)
    }

    /// Ends the app; its account must have every command.
    fn end(self, sent: usize) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let report = self.thread.join().map_err(|_| anyhow!("the app panicked"))??;
        let totals: Totals = report.commands.context("an app with parameters has an account")?;
        ensure!(totals.holds() && totals.applied == sent as u64, "{sent} commands were sent: {totals:?}");
        Ok(())
    }
}

fn parameter(place: usize) -> String {
    format!("gain-{place}")
}

fn set(remote: &mut Remote, number: u32) -> Result<()> {
    let value = Value::parse(Dtype::F8, &[], &number.to_string())?;
    applied(remote.set(&parameter(0), value, &SetOptions::default())?.1)
}

fn applied(conclusion: Conclusion) -> Result<()> {
    ensure!(matches!(conclusion, Conclusion::Answered(Answer::Applied(_))), "{conclusion:?}");
    Ok(())
}

/// Returns a bus on loopback with a port of its own.
fn bus() -> Result<Bus> {
    let port = UdpSocket::bind("0.0.0.0:0")?.local_addr()?.port();
    Ok(format!("udp://239.84.0.0:{port}?iface=lo").parse()?)
}
