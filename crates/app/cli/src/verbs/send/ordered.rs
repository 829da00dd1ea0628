//! Transfers between two other hosts: the order of `send --from`, and its execution by `recv --offer`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use serde_json::json;
use sys::Cancellation;
use tallycast::udt::{Address, Connection, Options};
use transfer::{Carried, Listing, MAX_STREAMS, Notice, Order, Report, Reporter, Sender};

use super::super::reliable::{Meter, POLL_INTERVAL, Screen, TransportArguments};
use super::{Arguments, Stopped, Transfer, divided, outcome};
use crate::Outcome;

/// Interval of progress reports to the one who ordered.
const INTERVAL: Duration = Duration::from_millis(500);

/// Has another host send files, and shows its progress and account.
pub(super) fn send(
    from: &Address,
    paths: &[PathBuf],
    to: &Address,
    arguments: &Arguments,
    cancellation: &Cancellation,
) -> anyhow::Result<Outcome> {
    if paths.is_empty() {
        bail!("nothing to send is given\nwrite paths below the folder that {from} offers");
    }
    let text = |path: &PathBuf| {
        let text = path.to_str().map(|path| path.trim_end_matches('/').to_owned());
        text.ok_or_else(|| anyhow!("{}: the name is not UTF-8 and cannot be ordered", path.display()))
    };
    let order = Order {
        paths: paths.iter().map(text).collect::<anyhow::Result<_>>()?,
        to: arguments.transport.named(to).to_string(),
        streams: arguments.streams,
        max_bytes_per_s: arguments.transport.max_bytes_per_s(),
    };
    let options = arguments.transport.for_files(from)?;
    let (peer, screen) = (from.resolve()?, Screen::new(arguments.json));
    arguments.transport.warn_if_clear(&screen, from, peer.ip());
    let connection = Connection::connect_to(peer, &options)
        .map_err(|error| anyhow!("{error}\nstart `tallycast recv --offer DIR` on that host first"))?;
    connection.set_receive_timeout(Some(POLL_INTERVAL));
    connection.set_send_timeout(Some(POLL_INTERVAL));
    let meter = Arc::new(Meter::new());
    let watched = [(to.to_string(), Arc::clone(&meter))];
    let (mut is_something_left_out, mut told) = (false, 0);
    let mut tell = |report: Report| {
        is_something_left_out |= matches!(report, Report::LeftOut { .. });
        show(&screen, &meter, &to.to_string(), report, &mut told);
        screen.progress(&watched);
    };
    let stop = || cancellation.is_cancelled();
    let carried = transfer::order(&connection, &order, &stop, &mut tell);
    let Carried { tally, moved_bytes, error } = match carried {
        Err(transfer::Failure::Stopped) => return Ok(Outcome::Found),
        carried => carried.with_context(|| format!("{from} does not send"))?,
    };
    meter.moved(usize::try_from(moved_bytes.saturating_sub(meter.sum().0)).unwrap_or(0));
    screen.account(&to.to_string(), &tally, &meter, error.as_deref());
    match error {
        Some(error) => Err(anyhow!("{error}")),
        None => Ok(outcome(&tally, is_something_left_out)),
    }
}

/// Shows a report as `send` shows what it does itself; `told` is the size moved so far.
fn show(screen: &Screen, meter: &Meter, to: &str, report: Report, told: &mut u64) {
    let notice = |notice: &Notice<'_>| {
        meter.notice(notice);
        screen.notice(to, notice);
    };
    match report {
        Report::Listed { entries, bytes } => notice(&Notice::Listed { entries, bytes }),
        Report::LeftOut { path, reason } => {
            let text = || format!("warning: skipping {path}: {reason}");
            screen.say(text, || json!({"event": "left_out", "path": path, "reason": reason}));
        }
        Report::Progress { moved_bytes } => {
            notice(&Notice::Moved { bytes: moved_bytes.saturating_sub(*told) });
            *told = moved_bytes.max(*told);
        }
        Report::File { path, bytes, outcome } => {
            screen.notice(to, &Notice::Ended { path: &path, bytes, outcome: &outcome });
        }
        Report::Account { .. } | Report::Fail { .. } => {}
    }
}

/// Carries out the order of a client over its connection; ends early once the client has gone. Returns the account, if
/// anything was sent.
pub(crate) fn carry_out(
    order: &Order,
    offered: Option<&Path>,
    connection: &Connection,
    (screen, transport): (&Screen, &TransportArguments),
    is_over: &(dyn Fn() -> bool + Sync),
) -> Option<Carried> {
    let carried = carried(order, offered, connection, (screen, transport), is_over);
    let report = carried.unwrap_or_else(|error| Report::Fail { reason: format!("{error:#}") });
    // A client that has gone needs no account.
    drop(Reporter::new(connection, is_over).report(&report));
    match report {
        Report::Account { tally, moved_bytes, error } => Some(Carried { tally, moved_bytes, error }),
        _ => None,
    }
}

fn carried(
    order: &Order,
    offered: Option<&Path>,
    connection: &Connection,
    (screen, transport): (&Screen, &TransportArguments),
    is_over: &(dyn Fn() -> bool + Sync),
) -> anyhow::Result<Report> {
    let (cancellation, is_done) = (Cancellation::new()?, AtomicBool::new(false));
    let stops = || is_over() || is_done.load(Ordering::Relaxed);
    let reporter = Reporter::new(connection, &stops);
    std::thread::scope(|scope| {
        // The client says nothing more: its end is that of the transfer.
        scope.spawn(|| {
            reporter.wait_for_end();
            cancellation.cancel();
        });
        let report = send_offered(order, offered, &reporter, (screen, transport), &cancellation);
        is_done.store(true, Ordering::Relaxed);
        report
    })
}

/// Refuses buffers that would take too much of this host's memory: the client need not be trusted.
fn bounded(options: Options) -> anyhow::Result<Options> {
    /// Maximum size of each buffer of an ordered transfer: 10 Gbit/s over 0.8 s.
    const MOST_BYTES: u64 = 1 << 30;
    let socket = &options.socket;
    let packets = socket.send_buffer_packets.max(socket.receive_buffer_packets);
    let bytes = u64::from(packets) * u64::from(socket.packet_bytes);
    if bytes > MOST_BYTES {
        bail!(
            "an order gets buffers of at most 1 GiB, and {packets} packets of {} bytes are {bytes} bytes\n\
             write a smaller sndbuf, rcvbuf or mtu into the destination",
            socket.packet_bytes
        );
    }
    Ok(options)
}

/// Sends offered files; returns the account.
fn send_offered(
    order: &Order,
    offered: Option<&Path>,
    reporter: &Reporter<'_, Connection>,
    (screen, transport): (&Screen, &TransportArguments),
    cancellation: &Cancellation,
) -> anyhow::Result<Report> {
    let offered = offered
        .ok_or_else(|| anyhow!("this host offers no folder\nstart its `tallycast recv` with --offer DIR"))?;
    if !(1..=MAX_STREAMS).contains(&order.streams) {
        bail!("{} streams are not possible: 1 to {MAX_STREAMS} are", order.streams);
    }
    let address: Address = order.to.parse()?;
    if transport.has_key() && address.is_clear() {
        bail!("this host has a key, and sends nothing in the clear\nomit secure=off in the destination");
    }
    let transport = transport.of_order(order.max_bytes_per_s);
    let options = divided(bounded(transport.for_files(&address)?)?, order.streams);
    let listing = Listing::within(offered, &order.paths)?;
    for left_out in &listing.left_out {
        reporter.report(&Report::LeftOut { path: left_out.shown(), reason: left_out.reason.clone() })?;
    }
    let meter = Arc::new(Meter::new());
    let due = Mutex::new(Instant::now());
    let also = |notice: &Notice<'_>| {
        let report = match notice {
            Notice::Listed { entries, bytes } => Report::Listed { entries: *entries, bytes: *bytes },
            Notice::Ended { path, bytes, outcome } => {
                Report::File { path: (*path).to_owned(), bytes: *bytes, outcome: (*outcome).clone() }
            }
            _ => {
                let mut due = due.lock().unwrap_or_else(PoisonError::into_inner);
                if Instant::now() < *due {
                    return;
                }
                *due = Instant::now() + INTERVAL;
                Report::Progress { moved_bytes: meter.sum().0 }
            }
        };
        // Noticed by the thread that waits for the client's end.
        drop(reporter.report(&report));
    };
    let sender = Sender::new(listing);
    let mut transfer = Transfer {
        address: &address,
        options,
        patience: None,
        streams: order.streams,
        also: &also,
        sender,
        screen,
        meter: &meter,
        cancellation,
    };
    let ended = transfer.run();
    let (tally, moved_bytes) = (transfer.sender.tally(), meter.sum().0);
    let error = match ended {
        Ok(()) => None,
        Err(Stopped::ByUs) => Some("the client has gone".to_owned()),
        Err(Stopped::Failed(error)) => Some(format!("{error:#}")),
    };
    screen.account(&address.to_string(), &tally, &meter, error.as_deref());
    Ok(Report::Account { tally, moved_bytes, error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_gets_buffers_of_a_gibibyte_and_no_more() {
        let options = |address: &str| {
            let address: Address = address.parse().unwrap();
            TransportArguments::default().of_order(None).for_files(&address).unwrap()
        };
        for address in ["udt://h", "udt://h?mtu=1024&sndbuf=1048576", "udt://h?mtu=1024&rcvbuf=1048576"] {
            assert!(bounded(options(address)).is_ok(), "{address}");
        }
        for address in ["udt://h?mtu=1024&sndbuf=1048577", "udt://h?mtu=1024&rcvbuf=1048577"] {
            let refused = bounded(options(address)).unwrap_err().to_string();
            assert!(
                refused.contains("1048577 packets of 1024 bytes are 1073742848 bytes\nwrite a smaller"),
                "{refused}"
            );
        }
    }
}
