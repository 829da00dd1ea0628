//! `cargo xtask counts`: instructions per datagram in the stream machines and the ring, counted by valgrind and
//! compared with the table in the repository.
//!
//! Instruction counts are independent of other load on the machine: they show a slower data path that no time
//! measurement could. The count is the difference of two runs of `instruments/peers/src/bin/counts`, the second with twice
//! the datagrams, so that the constant cost of a process cancels.

use crate::Verdict;
use crate::setup::{self, Need};
use crate::workspace::{Metadata, cargo, root};
use anyhow::{Context, bail, ensure};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// Options of `cargo xtask counts`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Write the counts into the table.
    #[arg(long)]
    update: bool,
}

/// Instructions per datagram, or per record, by case.
type Table = BTreeMap<String, u64>;

/// The committed table.
const TABLE: &str = "instruments/peers/counts.toml";
/// Header of the table.
const TABLE_HEAD: &str = "\
# Instructions that one datagram, or one record of a ring, costs; an optimised build under valgrind. Written by
# `cargo xtask counts --update`; `cargo xtask test` fails where a count has grown by more than 3 %.

[instructions]
";
/// Permitted growth of a count: compilers shift it by a percent or two.
const TOLERANCE_PERCENT: u64 = 3;
/// Datagrams of the shorter run: enough that work per train or per second does not show.
const DATAGRAMS: u64 = 2_000;
/// Makes the C library copy memory in the same way on all processors of the architecture. Otherwise the
/// implementation depends on the model, and for one of them, a single repeating instruction, valgrind counts every
/// byte: twice the instructions for a large datagram.
const ONE_WAY_TO_COPY: (&str, &str) = (
    "GLIBC_TUNABLES",
    "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX2,-AVX,-ERMS,-FSRM,-SSSE3,-AVX_Fast_Unaligned_Load",
);
/// Mark in the name of a case that does two things, the first of which has a case of its own.
const AND: char = '+';

/// Result of comparing a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Same,
    Slower,
    Faster,
    /// Not in the table.
    New,
    /// In the table only.
    Gone,
}

/// Counts, and compares the counts or writes the table.
pub(crate) fn run(options: &Options) -> anyhow::Result<Verdict> {
    let preparation = setup::prepare(&[Need::Valgrind]);
    if let Some(reason) = preparation.obstacle(&[Need::Valgrind]) {
        bail!("{reason}");
    }
    let found = count_all()?;
    let path = root().join(TABLE);
    if options.update {
        std::fs::write(&path, written(&found)).with_context(|| format!("cannot write {TABLE}"))?;
        println!("{TABLE} is up to date; say in the commit why the counts changed");
        return Ok(Verdict::Fine);
    }
    let committed = read(&std::fs::read_to_string(&path).with_context(|| format!("cannot read {TABLE}"))?)?;
    Ok(compare(&committed, &found))
}

/// Prints a line for every count.
fn compare(committed: &Table, found: &Table) -> Verdict {
    let mut verdict = Verdict::Fine;
    for name in committed.keys().chain(found.keys().filter(|name| !committed.contains_key(*name))) {
        let (was, is) = (committed.get(name).copied(), found.get(name).copied());
        let said = match change(was, is) {
            Change::Same => "as in the table",
            Change::Faster => "faster: update the table with cargo xtask counts --update",
            Change::Slower => "SLOWER: mend it, or, if it is worth it, cargo xtask counts --update",
            Change::New => "NOT IN THE TABLE: cargo xtask counts --update",
            Change::Gone => "NOT COUNTED ANY MORE: cargo xtask counts --update",
        };
        if matches!(change(was, is), Change::Slower | Change::New | Change::Gone) {
            verdict = Verdict::FoundSomething;
        }
        let shown = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
        println!("{name:<16} {:>6} instructions, {:>6} in the table: {said}", shown(is), shown(was));
    }
    verdict
}

fn change(was: Option<u64>, is: Option<u64>) -> Change {
    match (was, is) {
        (None, _) => Change::New,
        (_, None) => Change::Gone,
        (Some(was), Some(is)) if is * 100 > was * (100 + TOLERANCE_PERCENT) => Change::Slower,
        (Some(was), Some(is)) if is * 100 < was * (100 - TOLERANCE_PERCENT) => Change::Faster,
        _ => Change::Same,
    }
}

/// Builds the counted program and counts its cases.
fn count_all() -> anyhow::Result<Table> {
    let mut build = cargo();
    // Only the few crates that are counted are built optimised, without the other measurements.
    build.args(["build", "--release", "--package", "tallycast-peers", "--no-default-features"]);
    build.args(["--features", "counts", "--bin", "counts"]);
    setup::run_said(&mut build, "building what is counted, optimised")?;
    let program = Metadata::load()?.target_directory.join("release").join("counts");
    let listed = Command::new(&program).output().context("cannot start the counted program")?;
    let mut table = Table::new();
    for case in String::from_utf8_lossy(&listed.stdout).lines() {
        let more = count(&program, case, 2 * DATAGRAMS)?;
        let per_datagram = more.saturating_sub(count(&program, case, DATAGRAMS)?).div_ceil(DATAGRAMS);
        table.insert(case.to_owned(), per_datagram);
    }
    Ok(separated(table))
}

/// Subtracts the first half from cases that do both: `send/…` from `send+receive/…`, which leaves `receive/…`.
fn separated(counted: Table) -> Table {
    let second = |name: &str, count: u64| {
        let (first, second) = name.split_once(AND)?;
        let (_, what) = second.split_once('/')?;
        let alone = counted.get(&format!("{first}/{what}"))?;
        Some((second.to_owned(), count.saturating_sub(*alone)))
    };
    let row = |(name, count): (&String, &u64)| second(name, *count).unwrap_or_else(|| (name.clone(), *count));
    counted.iter().map(row).collect()
}

/// Returns the instructions of one whole run.
fn count(program: &Path, case: &str, datagrams: u64) -> anyhow::Result<u64> {
    let mut command = Command::new("valgrind");
    command.env(ONE_WAY_TO_COPY.0, ONE_WAY_TO_COPY.1);
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    let output = command.args([case, &datagrams.to_string()]).output().context("cannot start valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{case} failed under valgrind: {said}");
    let collected =
        said.lines().find_map(|line| line.split_once("Collected : ")).map(|(_, count)| count.trim());
    let collected = collected.with_context(|| format!("callgrind reported no count: {said}"))?;
    collected.parse().with_context(|| format!("callgrind counted `{collected}`"))
}

/// Reads the table: rows of `"name" = count` below the head.
fn read(text: &str) -> anyhow::Result<Table> {
    let rows = text.lines().filter(|line| line.starts_with('"'));
    let row = |line: &str| {
        let (name, count) = line.split_once(" = ")?;
        Some((name.trim_matches('"').to_owned(), count.trim().parse().ok()?))
    };
    rows.map(|line| row(line).with_context(|| format!("{TABLE}: `{line}` is not a row `\"name\" = count`")))
        .collect()
}

fn written(table: &Table) -> String {
    table.iter().fold(TABLE_HEAD.to_owned(), |mut text, (name, count)| {
        let _ = writeln!(text, "\"{name}\" = {count}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[(&str, u64)]) -> Table {
        rows.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn a_count_may_grow_by_the_tolerance_and_no_more() {
        assert_eq!(change(Some(1_000), Some(1_030)), Change::Same);
        assert_eq!(change(Some(1_000), Some(1_031)), Change::Slower);
        assert_eq!(change(Some(1_000), Some(970)), Change::Same);
        assert_eq!(change(Some(1_000), Some(969)), Change::Faster);
    }

    #[test]
    fn what_became_dearer_is_found_and_what_became_cheaper_is_not_complained_about() {
        let committed = table(&[("send/100B", 1_000)]);
        assert_eq!(compare(&committed, &table(&[("send/100B", 500)])), Verdict::Fine);
        assert_eq!(compare(&committed, &table(&[("send/100B", 1_100)])), Verdict::FoundSomething);
    }

    #[test]
    fn a_case_without_a_row_and_a_row_without_a_case_are_found() {
        let (one, two) = (table(&[("a", 1)]), table(&[("a", 1), ("b", 2)]));
        assert_eq!(compare(&one, &two), Verdict::FoundSomething);
        assert_eq!(compare(&two, &one), Verdict::FoundSomething);
        assert_eq!(compare(&two, &two), Verdict::Fine);
    }

    #[test]
    fn receiving_is_what_both_cost_without_sending() {
        let counted = table(&[("record/64B", 7), ("send/1B", 100), ("send+receive/1B", 250)]);
        assert_eq!(separated(counted), table(&[("record/64B", 7), ("send/1B", 100), ("receive/1B", 150)]));
    }

    #[test]
    fn what_is_written_can_be_read() {
        let rows = table(&[("receive/100B", 3_254), ("send/100B", 1_502)]);
        assert_eq!(read(&written(&rows)).unwrap(), rows);
        assert!(read("\"send/100B\" = many").is_err());
    }
}
