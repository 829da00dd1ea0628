//! The page `docs/reference/measured.md`: every benchmark's latest figures, written from the rows that it prints with
//! `--json`.
//!
//! `cargo xtask bench NAME --keep` stores the lines in `docs/reference/measured/NAME.jsonl` and rewrites the page;
//! `cargo xtask tidy` checks that the page is what the stored lines give. A measurement of some cases (`--only`) takes
//! the place of those cases.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::workspace::{root, said};

/// Path of the page.
pub(crate) const PAGE: &str = "docs/reference/measured.md";
/// Folder of the stored measurements.
const FOLDER: &str = "docs/reference/measured";

const INTRODUCTION: &str = "\
# Measured

Rates, delays and CPU costs next to bare sockets and other systems, written by the benchmarks from the rows in [measured/](measured), which hold more
cases. Figures are medians (smallest–largest); ratios within a table say more than absolute figures. Your own host: [bench.md](../guide/bench.md).

- `limit`: bare sockets, or a ring in C without records and accounts; `plain`: bare sockets, a datagram a call.
- `tallycast-udt`: UDT's own congestion control instead of `scalable`; `tallycast-plain`: without trains; `tallycast-noise`: secured by AES-256-GCM;
  `tallycast-noise-chacha`: by ChaCha20-Poly1305. quinn also encrypts.
- `secured` cases: a clear stream, streams encrypted by either suite, and the cipher `alone`, sealing and opening the same datagrams in memory;
  `loss_free_to_bound`: a loss-free rate as a share of 1 / (1/clear + 1/alone); `cpu_bound_to`: clear and alone together as a share of secured.
- `proof` cases: a publisher that signs statements about its samples beside one that encrypts alone; `cpu_per_mebibyte`: what signing adds at the source.
- `gso`: the longest trains that the kernel takes; `multicast-3`: three readers, rates of each; cases named by size alone: default options.
- `wan` cases: datagrams of 1,316 bytes over an emulated path, named by its round trip, its loss in each direction and the deadline; `missing` never came,
  `late` came behind the deadline, `bytes_per_byte`: what entered the path forward; SRT and RIST hold every datagram until the deadline.
- `steer` cases: from a command to its answer, which has waited for the step and for the log, on disk or in `memory`; `beyond_cycle`: less one cycle.
- `views` cases: one page changes a shared view that a hundred pages follow, `reached` is when it is on each of them; and what the monitor server costs with one
  page, or a hundred, that show this view. `limit`: bare sockets that are sent the same bytes, all of one moment at once; `beyond_bytes`: the server less those.
- `graph` cases: processor time of a monitor server's process, which receives all streams for the page, those of its nodes too; `mixed`: ten kinds in turn.
- `spin` polls; `futex` and `blocking` sleep. `one-way` delays are half a round trip, except those of `linger` and `plain`, which are stamped.
";

/// Cases of streams in the longest trains.
const TRAINS: &[&str] = &[
    "loopback/100B/gso",
    "loopback/1472B/gso",
    "loopback/1472B/gso/multicast-3",
    "veth/1472B/gso",
    "veth/1472B/gso/multicast-3",
];
/// Cases of streams with keys.
const SECURED: &[&str] = &[
    "loopback/1472B/secured",
    "loopback/1472B/secured/multicast-1",
    "veth/1472B/secured",
    "veth/1472B/secured/multicast-1",
];
/// Cases of publishers that sign.
const SIGNED: &[&str] = &["loopback/1472B/proof", "veth/1472B/proof"];
/// Cases of streams with default options.
const DEFAULTS: &[&str] = &["loopback/1472B", "veth/1472B"];
/// Cases of delays.
const DELAYS: &[&str] = &[
    "loopback/one-way/blocking",
    "loopback/one-way",
    "loopback/one-way/linger-0ms",
    "veth/one-way",
    "veth/one-way/linger-0ms",
    "veth/one-way/linger-5ms",
];
const RING_DELAYS: &[&str] =
    &["latency/64B/spin", "latency/64B/futex", "latency/64KiB/spin", "latency/4MiB/spin"];
const RING_RATES: &[&str] =
    &["bandwidth/64B/1-reader", "bandwidth/1KiB/1-reader", "bandwidth/64KiB/1-reader"];
const PATHS: &[&str] = &["veth/mtu1500", "veth/mtu9000", "loopback/mtu65536"];

/// Cases of commands to a cyclic app.
const STEERED: &[&str] = &["cycle-10ms", "cycle-10ms/memory", "cycle-1ms", "cycle-1ms/memory"];

/// Cases of changes of a view.
const CHANGES: &[&str] = &["100-pages/10-changes-per-s", "100-pages/50-changes-per-s"];
/// Cases of pages that show one view.
const VIEWERS: &[&str] = &[
    "6-plots-24-traces/1-page",
    "6-plots-24-traces/100-pages",
    "24-plots-96-traces/1-page",
    "24-plots-96-traces/100-pages",
    "6-plots-24-traces-at-40-kHz/1-page",
    "6-plots-24-traces-at-40-kHz/100-pages",
];

/// Cases of a monitor server's graph.
const GRAPHS: &[&str] = &["no-nodes", "200-nodes/derive", "200-nodes/mixed"];

/// Cases of long paths.
const LONG_PATHS: &[&str] = &[
    "rtt-20ms/loss-0.1%/deadline-55ms",
    "rtt-20ms/loss-1%/deadline-55ms",
    "rtt-20ms/loss-5%/deadline-55ms",
    "rtt-100ms/loss-0.1%/deadline-275ms",
    "rtt-100ms/loss-1%/deadline-275ms",
    "rtt-100ms/loss-5%/deadline-275ms",
    "rtt-200ms/loss-0.1%/deadline-550ms",
    "rtt-200ms/loss-1%/deadline-550ms",
    "rtt-200ms/loss-5%/deadline-550ms",
];

/// Samples that Python sends at a time.
const BLOCKS: &[&str] = &["rate/1", "rate/100", "rate/64KiB"];

/// Sections of the page, in their order.
const SECTIONS: &[Section] = &[
    Section {
        bench: "net",
        title: "Network",
        tables: &[
            Table { metric: "loss_free_goodput", cases: TRAINS },
            Table { metric: "goodput", cases: &["loopback/1472B/gso", "veth/1472B/gso"] },
            Table { metric: "cpu_per_datagram_source", cases: TRAINS },
            Table { metric: "cpu_per_datagram_reader", cases: TRAINS },
            Table { metric: "loss_free_datagrams", cases: SECURED },
            Table { metric: "loss_free_to_bound", cases: SECURED },
            Table { metric: "cpu_bound_to_source", cases: SECURED },
            Table { metric: "cpu_bound_to_reader", cases: SECURED },
            Table { metric: "cpu_per_datagram_source", cases: SECURED },
            Table { metric: "cpu_per_datagram_reader", cases: SECURED },
            Table { metric: "loss_free_datagrams", cases: SIGNED },
            Table { metric: "loss_free_to_unsigned", cases: SIGNED },
            Table { metric: "cpu_per_datagram_source", cases: SIGNED },
            Table { metric: "cpu_per_mebibyte", cases: SIGNED },
            Table { metric: "loss_free_datagrams", cases: DEFAULTS },
            Table { metric: "cpu_source_50k", cases: DEFAULTS },
            Table { metric: "cpu_reader_50k", cases: DEFAULTS },
            Table { metric: "p50", cases: DELAYS },
            Table { metric: "p99", cases: DELAYS },
            Table { metric: "p50", cases: &["loopback/to-page"] },
        ],
    },
    Section {
        bench: "ring",
        title: "Shared-memory ring",
        tables: &[
            Table { metric: "p50", cases: RING_DELAYS },
            Table { metric: "GB/s", cases: RING_RATES },
            Table { metric: "instructions", cases: &["cost/64B/1-reader", "cost/1KiB/1-reader"] },
        ],
    },
    Section {
        bench: "transport",
        title: "Reliable transport",
        tables: &[
            Table { metric: "goodput", cases: PATHS },
            Table { metric: "source_cpu_per_packet", cases: PATHS },
            Table { metric: "reader_cpu_per_packet", cases: PATHS },
        ],
    },
    Section {
        bench: "wan",
        title: "Live across a long path",
        tables: &[
            Table { metric: "missing", cases: LONG_PATHS },
            Table { metric: "late", cases: LONG_PATHS },
            Table { metric: "p50", cases: LONG_PATHS },
            Table { metric: "p99", cases: LONG_PATHS },
            Table { metric: "bytes_per_byte", cases: LONG_PATHS },
        ],
    },
    Section {
        bench: "python",
        title: "From Python",
        tables: &[
            Table { metric: "samples", cases: BLOCKS },
            Table { metric: "data", cases: &["rate/64KiB"] },
            Table { metric: "lost", cases: BLOCKS },
            Table { metric: "p50", cases: &["latency/64B/asleep", "latency/64B/spinning"] },
        ],
    },
    Section {
        bench: "doctor",
        title: "What the doctor costs",
        tables: &[
            Table { metric: "received", cases: &["500k/no-loss", "unpaced/trains"] },
            Table { metric: "busy", cases: &["500k/no-loss", "500k/10%-lost"] },
        ],
    },
    Section {
        bench: "steer",
        title: "Steering",
        tables: &[
            Table { metric: "empty_p50", cases: &["step"] },
            Table { metric: "empty_p99", cases: &["step"] },
            Table { metric: "answered_p50", cases: STEERED },
            Table { metric: "answered_p99", cases: STEERED },
            Table { metric: "beyond_cycle_p99", cases: STEERED },
            Table { metric: "commands", cases: &["10-senders"] },
        ],
    },
    Section {
        bench: "views",
        title: "Shared views",
        tables: &[
            Table { metric: "reached_p50", cases: CHANGES },
            Table { metric: "reached_p99", cases: CHANGES },
            Table { metric: "reached_max", cases: CHANGES },
            Table { metric: "busy", cases: VIEWERS },
            Table { metric: "beyond_bytes", cases: VIEWERS },
            Table { metric: "beyond_bytes_to_one", cases: VIEWERS },
            Table { metric: "frames_per_page", cases: VIEWERS },
        ],
    },
    Section {
        bench: "graph",
        title: "Processing graph",
        tables: &[
            Table { metric: "processor_time", cases: GRAPHS },
            Table { metric: "read", cases: GRAPHS.split_at(1).1 },
        ],
    },
];

/// One benchmark on the page.
struct Section {
    bench: &'static str,
    title: &'static str,
    /// Tables of the page; the other figures are in the stored rows only.
    tables: &'static [Table],
}

/// Figures of one metric: a row for each case, a column for each system.
struct Table {
    metric: &'static str,
    cases: &'static [&'static str],
}

/// Rows that one run of a benchmark printed.
#[derive(Debug, PartialEq)]
struct Run {
    stand: Stand,
    notes: Vec<String>,
    rows: Vec<Row>,
}

/// Where and when a benchmark ran.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
struct Stand {
    host: String,
    /// Day of its end, in UTC.
    date: String,
}

/// One figure of one system: a median over runs, and its spread.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
struct Row {
    case: String,
    system: String,
    metric: String,
    /// A rate's unit begins with a stroke.
    unit: String,
    median: f64,
    min: f64,
    max: f64,
    runs: u64,
}

/// Line of a file: a run begins with its stand, and continues with what the benchmark printed.
#[derive(Deserialize, Serialize)]
#[serde(untagged)]
enum Line {
    Stand(Stand),
    Row(Row),
    Note { note: String },
}

/// Stores what a benchmark printed, and rewrites the page.
pub(super) fn keep(name: &str, printed: &str) -> anyhow::Result<()> {
    let stand = serde_json::to_string(&Stand { host: host()?, date: today()? })?;
    let new = runs(&format!("{stand}\n{printed}"))?;
    ensure!(
        new.iter().any(|run| !run.rows.is_empty()),
        "the benchmark {name} printed no row: nothing is kept"
    );
    let path = format!("{FOLDER}/{name}.jsonl");
    let file = root().join(&path);
    let stored = if file.exists() { stored(&path)? } else { Vec::new() };
    fs::create_dir_all(root().join(FOLDER)).with_context(|| format!("cannot create {FOLDER}/"))?;
    fs::write(file, lines(merged(stored, new))?).with_context(|| format!("cannot write {path}"))?;
    update()
}

/// Writes the page from the stored rows.
pub(crate) fn update() -> anyhow::Result<()> {
    fs::write(root().join(PAGE), page()?).with_context(|| format!("cannot write {PAGE}"))
}

/// Returns the page that the stored rows give.
pub(crate) fn page() -> anyhow::Result<String> {
    let mut text = INTRODUCTION.to_owned();
    for section in SECTIONS {
        let path = format!("{FOLDER}/{}.jsonl", section.bench);
        section.write(&mut text, &stored(&path)?);
    }
    Ok(text)
}

fn stored(path: &str) -> anyhow::Result<Vec<Run>> {
    let text = fs::read_to_string(root().join(path)).with_context(|| format!("cannot read {path}"))?;
    runs(&text).with_context(|| format!("{path} is invalid"))
}

/// Reads the runs of a file.
fn runs(text: &str) -> anyhow::Result<Vec<Run>> {
    let mut runs: Vec<Run> = Vec::new();
    for line in text.lines() {
        let read = serde_json::from_str(line).with_context(|| format!("neither a row nor a note: {line}"))?;
        match (read, runs.last_mut()) {
            (Line::Stand(stand), _) => runs.push(Run { stand, notes: Vec::new(), rows: Vec::new() }),
            (Line::Row(row), Some(run)) => run.rows.push(row),
            (Line::Note { note }, Some(run)) => run.notes.push(note),
            (_, None) => bail!("no host and no date before: {line}"),
        }
    }
    Ok(runs)
}

/// Puts new runs behind the stored ones, whose cases they replace.
fn merged(mut stored: Vec<Run>, new: Vec<Run>) -> Vec<Run> {
    let is_replaced = |row: &Row| new.iter().flat_map(|run| &run.rows).any(|fresh| fresh.case == row.case);
    for run in &mut stored {
        run.rows.retain(|row| !is_replaced(row));
    }
    stored.retain(|run| !run.rows.is_empty());
    stored.into_iter().chain(new).collect()
}

/// Writes the runs of a file.
fn lines(runs: Vec<Run>) -> anyhow::Result<String> {
    let of_run = |run: Run| {
        let notes = run.notes.into_iter().map(|note| Line::Note { note });
        std::iter::once(Line::Stand(run.stand)).chain(notes).chain(run.rows.into_iter().map(Line::Row))
    };
    let lines = runs.into_iter().flat_map(of_run).map(|line| Ok(serde_json::to_string(&line)? + "\n"));
    lines.collect()
}

impl Section {
    /// Appends the section.
    fn write(&self, text: &mut String, runs: &[Run]) {
        let stands = distinct(runs.iter().map(|run| format!("{}; {}", run.stand.host, run.stand.date)));
        let _ = writeln!(
            text,
            "\n## {}\n\n`cargo xtask bench {}`; {}.",
            self.title,
            self.bench,
            stands.join("; ")
        );
        // What could not be measured is of interest on that host only.
        let notes = runs.iter().flat_map(|run| &run.notes).filter(|note| !note.contains("not measured"));
        text.push('\n');
        distinct(notes).iter().for_each(|note| text.push_str(&format!("- {note}\n")));
        let rows: Vec<&Row> = runs.iter().flat_map(|run| &run.rows).collect();
        self.tables.iter().for_each(|table| table.write(text, &rows));
    }
}

impl Table {
    /// Appends the table.
    fn write(&self, text: &mut String, rows: &[&Row]) {
        let is_shown = |row: &&&Row| row.metric == self.metric && self.cases.contains(&&*row.case);
        let rows: Vec<&Row> = rows.iter().filter(is_shown).copied().collect();
        if rows.is_empty() {
            return;
        }
        let systems = distinct(rows.iter().map(|row| row.system.as_str()));
        let unit = rows.first().map_or("", |row| row.unit.as_str());
        let heading = if unit.is_empty() || unit == self.metric {
            self.metric.to_owned()
        } else {
            format!("{}, {unit}", self.metric)
        };
        let _ = writeln!(text, "\n| {heading} | {} |", systems.join(" | "));
        let _ = writeln!(text, "|---|{}", "---|".repeat(systems.len()));
        for case in self.cases.iter().filter(|case| rows.iter().any(|row| row.case == **case)) {
            let cells = systems.iter().map(|system| {
                let row = rows.iter().find(|row| row.case == *case && row.system == *system);
                row.map_or(String::new(), |row| cell(row))
            });
            let _ = writeln!(text, "| {case} | {} |", cells.collect::<Vec<_>>().join(" | "));
        }
    }
}

/// Formats a figure and its spread; of a rate with a prefix, since the rates of a table lie far apart.
fn cell(row: &Row) -> String {
    let (scale, prefix) = match row.median {
        _ if !row.unit.starts_with('/') => (1.0, ""),
        large if large >= 1e9 => (1e9, " G"),
        large if large >= 1e6 => (1e6, " M"),
        large if large >= 1e3 => (1e3, " k"),
        _ => (1.0, ""),
    };
    let [median, min, max] = [row.median, row.min, row.max].map(|value| three_digits(value / scale));
    if row.runs == 1 || min == max { median + prefix } else { format!("{median}{prefix} ({min}–{max})") }
}

/// Formats a number with three significant digits, below 0.1 with three decimals.
fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        large if large >= 100.0 => 0,
        large if large >= 10.0 => 1,
        large if large >= 1.0 || large == 0.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// Returns each value once, in the order of first appearance.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    values.fold(Vec::new(), |mut found, value| {
        if !found.contains(&value) {
            found.push(value);
        }
        found
    })
}

/// Names the processors and the kernel.
fn host() -> anyhow::Result<String> {
    let processors = fs::read_to_string("/proc/cpuinfo").context("cannot read /proc/cpuinfo")?;
    let model = processors.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let count = processors.lines().filter(|line| line.starts_with("processor")).count();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let model = model.map_or("processors of an unnamed model", |(_, model)| model);
    Ok(format!("{count} CPUs, {model}, Linux {}", kernel.trim()))
}

fn today() -> anyhow::Result<String> {
    said(std::process::Command::new("date").args(["--utc", "+%F"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAND: &str = r#"{"host":"2 CPUs","date":"2026-11-26"}"#;

    fn row(case: &str, system: &str, median: f64, count: u64) -> String {
        serde_json::json!({
            "bench": "net", "case": case, "system": system, "metric": "rate", "unit": "/s",
            "median": median, "min": median / 2.0, "max": median * 2.0, "runs": count,
        })
        .to_string()
    }

    fn printed(lines: &[String]) -> Vec<Run> {
        runs(&format!("{STAND}\n{}", lines.join("\n"))).unwrap()
    }

    #[test]
    fn a_metric_becomes_a_table_of_cases_and_systems() {
        let runs = printed(&[
            row("loopback", "limit", 2.5e6, 5),
            r#"{"bench":"net","note":"medians of 5 runs"}"#.to_owned(),
            row("loopback", "tallycast", 1.25e6, 5),
            row("veth", "tallycast", 500_000.0, 1),
            row("tunnel", "tallycast", 1.0, 1),
        ]);
        let tables = &[Table { metric: "rate", cases: &["loopback", "veth"] }];
        let mut text = String::new();
        Section { bench: "net", title: "Network", tables }.write(&mut text, &runs);
        let expected = "
## Network

`cargo xtask bench net`; 2 CPUs; 2026-11-26.

- medians of 5 runs

| rate, /s | limit | tallycast |
|---|---|---|
| loopback | 2.50 M (1.25–5.00) | 1.25 M (0.625–2.50) |
| veth |  | 500 k |
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_new_measurement_replaces_its_cases_and_no_others() {
        let old = printed(&[row("loopback", "tallycast", 1.0, 5), row("veth", "tallycast", 2.0, 5)]);
        let new = || printed(&[row("veth", "tallycast", 3.0, 5)]);
        let both = merged(old, new());
        let medians = |runs: &[Run]| -> Vec<f64> {
            runs.iter().flat_map(|run| &run.rows).map(|row| row.median).collect()
        };
        assert_eq!(medians(&both), [1.0, 3.0]);
        assert_eq!(runs(&lines(both).unwrap()).unwrap().len(), 2);
        assert_eq!(merged(new(), new()), new(), "a run without rows is forgotten");
    }

    #[test]
    fn a_line_that_is_no_row_is_refused() {
        for (text, reason) in
            [("panicked", "neither a row nor a note"), (&*row("veth", "limit", 1.0, 1), "no host")]
        {
            let error = runs(text).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
}
