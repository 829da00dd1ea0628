//! The stream from publisher to reader over multicast on loopback: the highest loss-free rate, processor time
//! per datagram on each side, latency, and what a ring's writer pays for its readers.
//!
//! Publisher and reader are processes of their own (this program starts itself again as the reader), so that
//! each side's processor time is its own. A rate counts as loss-free when not one datagram is missing in a run.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use benches::{Report, Row, cpu_seconds, percentile};
use serde_json::{Value, json};
use tallycast::{Channel, Dtype, Event, Node, OnFull, Pacing, Publisher};

const RUNS: usize = 5;
/// How long each run publishes.
const RUN_TIME: Duration = Duration::from_millis(1_000);
/// The search for the highest loss-free rate ends when its step is this share of the rate.
const SEARCH_STEP: f64 = 0.05;
/// Samples per second of the first try: one `f4` each, 348 to a datagram.
const FIRST_RATE: u32 = 20_000_000;
const LATENCY_SAMPLES: usize = 4_000;
const WATCHDOG: Duration = Duration::from_secs(30);

fn main() -> Result<()> {
    if let Some(bus) = std::env::args().skip_while(|argument| argument != "--reader").nth(1) {
        return read(&bus);
    }
    let report = Report::from_arguments("cast");
    throughput(&report)?;
    latency(&report)?;
    ring_writer(&report);
    Ok(())
}

/// The other process: reads one stream after the other and tells what it saw of each.
fn read(bus: &str) -> Result<()> {
    let node = Node::open(bus.parse()?)?;
    let mut subscriber = node.subscriber("**").reader("bench").open()?;
    let mut delays: Vec<f64> = Vec::new();
    let mut cpu = cpu_seconds();
    loop {
        match subscriber.next(WATCHDOG) {
            Some(Event::Began(_)) => {
                cpu = cpu_seconds();
                println!("{}", json!({"event": "began"}));
            }
            Some(Event::Block(block)) if block.schema.dtype == Dtype::U64 => {
                let now = sys::clock::monotonic().as_nanos();
                #[expect(clippy::cast_precision_loss, reason = "a delay is small")]
                let delay = |sent: &u64| now.saturating_sub(*sent) as f64 / 1e3;
                delays.extend(block.elements::<u64>()?.iter().map(delay));
            }
            Some(Event::Ended(account)) => {
                delays.sort_by(f64::total_cmp);
                let told = json!({
                    "event": "ended", "account": tallycast::account_json(&account),
                    "cpu_s": cpu_seconds() - cpu, "delays_us": delays,
                });
                println!("{told}");
                delays.clear();
            }
            Some(_) => {}
            None => return Ok(()),
        }
    }
}

/// The reader's process, seen from here.
struct Reader {
    child: Child,
    lines: BufReader<ChildStdout>,
    _stdin: ChildStdin,
}

impl Reader {
    fn start(bus: &str) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--reader", bus])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("this program cannot start itself")?;
        let lines = BufReader::new(child.stdout.take().context("a pipe was asked for")?);
        let stdin = child.stdin.take().context("a pipe was asked for")?;
        Ok(Self { child, lines, _stdin: stdin })
    }

    fn wait_for(&mut self, event: &str) -> Result<Value> {
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line)? == 0 {
                bail!("the reader ended before it said `{event}`");
            }
            let value: Value = serde_json::from_str(&line)?;
            if value["event"] == event {
                return Ok(value);
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn bus() -> Result<String> {
    let port = std::net::UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port();
    Ok(format!("udp://239.84.0.0:{port}?iface=lo&rcvbuf=4194304"))
}

/// What one run at a rate saw.
struct Run {
    lost: u64,
    datagrams: f64,
    seconds: f64,
    sender_cpu_s: f64,
    reader_cpu_s: f64,
}

fn throughput(report: &Report) -> Result<()> {
    let bus = bus()?;
    let mut reader = Reader::start(&bus)?;
    let node = Node::open(bus.parse()?)?;
    let mut best = Vec::new();
    for repeat in 0..RUNS {
        best.push(highest_loss_free(&node, &mut reader, repeat)?);
    }
    let case = "loopback/1472B";
    let metric = |metric, unit, value: &dyn Fn(&Run) -> f64| {
        let runs: Vec<f64> = best.iter().map(value).collect();
        report.row(&Row { case, system: "tallycast", metric, unit, runs: &runs });
    };
    metric("loss_free_datagrams", "1/s", &|run| run.datagrams / run.seconds);
    metric("loss_free_elements", "1/s", &|run| run.datagrams * 348.0 / run.seconds);
    metric("cpu_sender", "us", &|run| run.sender_cpu_s / run.datagrams * 1e6);
    metric("cpu_reader", "us", &|run| run.reader_cpu_s / run.datagrams * 1e6);
    Ok(())
}

/// Searches by bisection for the highest rate at which a run loses nothing.
fn highest_loss_free(node: &Node, reader: &mut Reader, repeat: usize) -> Result<Run> {
    let (mut low, mut high) = (0.0, f64::from(FIRST_RATE) * 16.0);
    let mut rate = f64::from(FIRST_RATE);
    let mut best = None;
    let mut attempt = 0;
    while best.is_none() || (high - low) / high > SEARCH_STEP {
        attempt += 1;
        let run = run_at(node, reader, &format!("bench/r{repeat}-{attempt}"), rate)?;
        // A sender that cannot keep up is as far from the rate as a reader that loses.
        let reached = run.datagrams * 348.0 / run.seconds >= rate * 0.95;
        if run.lost == 0 && reached {
            low = rate;
            best = Some(run);
        } else {
            high = rate;
        }
        rate = if high > f64::from(FIRST_RATE) * 15.0 { rate * 2.0 } else { f64::midpoint(low, high) };
        anyhow::ensure!(rate > 1e4, "no loss-free rate was found above 10,000 samples per second");
    }
    best.context("the search ends with a loss-free run")
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "rates"
)]
fn run_at(node: &Node, reader: &mut Reader, name: &str, rate: f64) -> Result<Run> {
    let hz = (rate as u32).max(1);
    let mut publisher = node
        .publisher(name)
        .dtype(Dtype::F4)
        .rate(tallycast::SampleRate::hz(hz)?)
        .channel(Channel::new("value", ""))
        .on_full(OnFull::Block)
        .open()?;
    reader.wait_for("began")?;
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let block = vec![1.0_f32; (hz / 1_000).max(1) as usize];
    let mut sent = 0_u64;
    while start.elapsed() < RUN_TIME {
        let due = (start.elapsed().as_secs_f64() * rate) as u64;
        if sent < due {
            publisher.send(&block)?;
            sent += block.len() as u64;
        } else {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let totals = publisher.close();
    let sender_cpu_s = cpu_seconds() - cpu;
    let ended = reader.wait_for("ended")?;
    let received = ended["account"]["datagrams"]["received"].as_u64().context("an account counts")?;
    let delivered = ended["account"]["elements"]["delivered"].as_u64().context("an account counts")?;
    anyhow::ensure!(ended["account"]["balanced"] == true, "the account does not balance: {ended}");
    let lost = totals.samples.offered - delivered;
    let reader_cpu_s = ended["cpu_s"].as_f64().context("the reader tells its processor time")?;
    Ok(Run { lost, datagrams: received as f64, seconds, sender_cpu_s, reader_cpu_s })
}

fn latency(report: &Report) -> Result<()> {
    let bus = bus()?;
    let mut reader = Reader::start(&bus)?;
    let node = Node::open(bus.parse()?)?;
    let (mut p50, mut p99) = (Vec::new(), Vec::new());
    for repeat in 0..RUNS {
        let mut publisher = node
            .publisher(format!("bench/latency{repeat}"))
            .dtype(Dtype::U64)
            .rate(1_000)
            .channel(Channel::new("sent", "ns"))
            .linger(Duration::ZERO)
            .pacing(Pacing::Unlimited)
            .open()?;
        reader.wait_for("began")?;
        for _ in 0..LATENCY_SAMPLES {
            send_now(&mut publisher)?;
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = publisher.close();
        let ended = reader.wait_for("ended")?;
        let delays: Vec<f64> = serde_json::from_value(ended["delays_us"].clone())?;
        p50.push(percentile(&delays, 0.5));
        p99.push(percentile(&delays, 0.99));
    }
    let case = "loopback/8B/one-way";
    report.row(&Row { case, system: "tallycast", metric: "p50", unit: "us", runs: &p50 });
    report.row(&Row { case, system: "tallycast", metric: "p99", unit: "us", runs: &p99 });
    Ok(())
}

fn send_now(publisher: &mut Publisher) -> Result<()> {
    Ok(publisher.send(&[sys::clock::monotonic().as_nanos()])?)
}

/// What one record costs the writer, with so many readers that read along.
fn ring_writer(report: &Report) {
    const RECORDS: u32 = 2_000_000;
    for readers in [0_usize, 1, 3] {
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            let (mut writer, ring) = ring::ring(1 << 20);
            let payload = [7_u8; 64];
            std::thread::scope(|scope| {
                for _ in 0..readers {
                    let mut reader = ring.reader_at_head();
                    scope.spawn(move || {
                        let mut record = Vec::new();
                        while reader.read(&mut record) != ring::Read::Closed {}
                    });
                }
                let start = Instant::now();
                for _ in 0..RECORDS {
                    writer.write(1, [0, 0], &[&payload]).expect("a small record fits");
                }
                runs.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(RECORDS));
                writer.close();
            });
        }
        let case = format!("ring/64B/{readers}-readers");
        report.row(&Row { case: &case, system: "tallycast", metric: "writer", unit: "ns", runs: &runs });
    }
    let _ = std::io::stdout().flush();
}
