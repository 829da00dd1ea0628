//! Snapshots for the terminal view: this reader's streams, and the host's losses, sockets and processors.

use std::collections::BTreeMap;
use std::time::Duration;

use doctor::{Owner, Socket, Wanted, Watcher};
use sys::processor_time::{Ticks, net_rx_of_each};
use units::text::decimal_size;

use super::readers;
use super::relays::{self, HostRelay};
use super::state::{Field, Seen, Table};
use super::{Line, lost_text, reach_text};

/// Takes snapshots of the host.
pub(super) struct Snapshots {
    /// `None` if the kernel lists no sockets.
    watcher: Option<Watcher>,
    /// Losses since the view began, and in the last interval.
    lost: BTreeMap<(&'static str, String), (u64, u64)>,
    /// Drops of sockets when they were first seen, and in the previous snapshot.
    drops: BTreeMap<u64, (u32, u32)>,
    ticks: BTreeMap<u32, Ticks>,
    net_rx: BTreeMap<u32, u64>,
}

impl Snapshots {
    pub(super) fn begin() -> Self {
        Self {
            watcher: Watcher::begin(Wanted::default(), None).ok(),
            lost: BTreeMap::new(),
            drops: BTreeMap::new(),
            ticks: Ticks::of_each().into_iter().collect(),
            net_rx: net_rx_of_each().into_iter().collect(),
        }
    }

    /// Takes a snapshot; `lines` are the streams, `relays` those of this host, `took` is the time since the last one.
    pub(super) fn take(&mut self, lines: &[Line], relays: &[HostRelay], took: Duration) -> Seen {
        self.lost.values_mut().for_each(|(_, now)| *now = 0);
        let losses =
            self.watcher.as_mut().and_then(|watcher| watcher.take_snapshot().ok()).map(|seen| seen.losses);
        for finding in losses.iter().flat_map(|losses| &losses.findings) {
            let place = finding.place.to_string();
            let (all, now) = self.lost.entry((finding.stage.name(), place)).or_default();
            *all += finding.count;
            *now += finding.count;
        }
        let seconds = took.as_secs_f64().max(f64::MIN_POSITIVE);
        Seen {
            head: head(lines, self.watcher.is_some()),
            tables: [
                streams(lines),
                self.stages(lines, seconds),
                self.sockets(seconds),
                self.processors(seconds),
                readers::table(lines),
                relays::table(relays),
            ],
        }
    }

    fn stages(&self, lines: &[Line], seconds: f64) -> Table {
        let of_host = self.lost.iter().map(|((stage, place), (all, now))| {
            vec![
                Field::text(*stage),
                count(*all),
                per_second(*now as f64 / seconds),
                Field::text(format!("host: {place}")),
            ]
        });
        let of_stream = lines.iter().flat_map(|line| {
            let rows = &line.account.account.elements;
            let stages = rows.lost.nonzero().map(|(stage, count)| (stage.name(), count));
            let rest = [("unexplained", rows.unexplained), ("unsettled", rows.unsettled)];
            let name = line.account.stream.as_str();
            stages.chain(rest.into_iter().filter(|(_, count)| *count > 0)).map(move |(stage, lost)| {
                vec![
                    Field::text(stage),
                    count(lost),
                    Field::text(""),
                    Field::text(format!("stream {name}, elements")),
                ]
            })
        });
        let rows = of_host.chain(of_stream).collect();
        Table { heads: &["STAGE", "LOST", "PER S", "WHERE"], rows }
    }

    fn sockets(&mut self, seconds: f64) -> Table {
        let sockets = self.watcher.as_ref().map_or(&[][..], Watcher::last_sockets);
        let row = |socket: &Socket, drops: &mut BTreeMap<u64, (u32, u32)>| {
            let (first, last) = drops.entry(socket.cookie).or_insert((socket.drops, socket.drops));
            let (since, now) = (socket.drops.wrapping_sub(*first), socket.drops.wrapping_sub(*last));
            *last = socket.drops;
            let program = socket.owner.as_ref().map_or_else(
                || "not yours to see".to_owned(),
                |Owner { pid, name, .. }| format!("{name}[{pid}]"),
            );
            vec![
                count(since.into()),
                per_second(f64::from(now) / seconds),
                count(socket.drops.into()),
                Field::number(decimal_size(socket.buffer_bytes.into()), f64::from(socket.buffer_bytes)),
                Field::text(socket.local.to_string()),
                Field::text(program),
            ]
        };
        let rows = sockets.iter().map(|socket| row(socket, &mut self.drops)).collect();
        self.drops.retain(|cookie, _| sockets.iter().any(|socket| socket.cookie == *cookie));
        Table { heads: &["DROPS", "PER S", "IN ALL", "BUFFER", "SOCKET", "PROGRAM"], rows }
    }

    fn processors(&mut self, seconds: f64) -> Table {
        let (ticks, net_rx) = (Ticks::of_each(), net_rx_of_each());
        let before = |number: &u32| self.net_rx.get(number).copied();
        let rose: BTreeMap<u32, u64> = net_rx
            .iter()
            .filter_map(|(number, now)| Some((*number, now.saturating_sub(before(number)?))))
            .collect();
        let row = |(number, now): &(u32, Ticks)| {
            let rise = now.since(self.ticks.get(number)?);
            let Ticks { user, nice, system, idle, iowait, irq, softirq, steal } = rise;
            let all = (user + nice + system + idle + iowait + irq + softirq + steal).max(1);
            let percent = |ticks: u64| {
                let share = ticks as f64 * 100.0 / all as f64;
                Field::number(format!("{share:.1} %"), share)
            };
            let received = rose.get(number).copied().unwrap_or(0) as f64 / seconds;
            Some(vec![
                Field::number(number.to_string(), -f64::from(*number)),
                percent(softirq),
                percent(irq),
                percent(system),
                percent(user + nice),
                percent(idle + iowait),
                per_second(received),
            ])
        };
        // One that was switched on since has nothing to compare with.
        let rows = ticks.iter().filter_map(row).collect();
        self.ticks = ticks.into_iter().collect();
        self.net_rx = net_rx.into_iter().collect();
        Table { heads: &["CPU", "SOFTIRQ", "IRQ", "SYSTEM", "USER", "IDLE", "NET_RX/S"], rows }
    }
}

fn streams(lines: &[Line]) -> Table {
    let row = |line: &Line| {
        let rows = &line.account.account.elements;
        vec![
            Field::text(line.account.stream.as_str()),
            per_second(line.samples_per_s),
            per_second(line.bytes_per_s / 1e6),
            count(rows.delivered),
            Field::number(lost_text(&line.account), rows.missing() as f64),
            Field::text(line.level.to_string()),
            Field::text(reach_text(line)),
        ]
    };
    Table {
        heads: &["STREAM", "SAMPLES/S", "MB/S", "DELIVERED", "LOST", "LEVEL", "REACH"],
        rows: lines.iter().map(row).collect(),
    }
}

/// Returns the summary line.
fn head(lines: &[Line], sees_host: bool) -> String {
    // The sum of no floating-point numbers would be -0.
    let rate = lines.iter().fold(0.0, |rate, line| rate + line.samples_per_s);
    let sum = |of: fn(&Line) -> u64| lines.iter().map(of).sum::<u64>();
    let missing = sum(|line| line.account.account.elements.missing());
    let unexplained = sum(|line| line.account.account.elements.unexplained);
    let host = if sees_host { "" } else { "; the host shows no sockets" };
    let count = lines.len();
    format!(
        "{count} streams, {rate:.0} samples/s, {missing} elements missing, {unexplained} unexplained{host}"
    )
}

pub(super) fn count(count: u64) -> Field {
    Field::number(count.to_string(), count as f64)
}

pub(super) fn per_second(rate: f64) -> Field {
    let digits = usize::from(rate < 10.0 && rate > 0.0);
    Field::number(format!("{rate:.digits$}"), rate)
}
