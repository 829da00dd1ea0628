//! Output of a run of the emulator: a status line while it runs, at its end text or one JSON object.

use std::io::{self, Write};
use std::time::Duration;

use emulator::{Account, InvalidReason, Lateness, Report, Way};
use serde_json::{Value, json};
use units::text::decimal_size;

use crate::layout;

/// Returns the status line.
pub(crate) fn progress([forward, reverse]: &[Account; 2]) -> String {
    let way = |account: &Account| {
        format!(
            "{} forwarded ({}), {} lost",
            account.passed,
            decimal_size(account.passed_bytes),
            account.lost.sum()
        )
    };
    format!("forward {}; reverse {}", way(forward), way(reverse))
}

/// Writes the report as text.
pub(crate) fn print(report: &Report, invalid: &[InvalidReason], output: &mut impl Write) -> io::Result<()> {
    for (name, way) in [("forward", &report.forward), ("reverse", &report.reverse)] {
        writeln!(
            output,
            "{}",
            layout::hanging(&format!("{name:<8}"), &account_text(&way.account), layout::width())
        )?;
    }
    for (name, way) in [("forward", &report.forward), ("reverse", &report.reverse)] {
        writeln!(
            output,
            "{}",
            layout::hanging(&format!("late {name:<8}"), &late_text(&way.lateness), layout::width())
        )?;
    }
    let clients = match report.clients {
        0 => String::new(),
        1 => "1 client; ".to_owned(),
        count => format!("{count} clients; "),
    };
    let away = match report.turned_away {
        0 => String::new(),
        count => format!("{count} datagrams of excess clients rejected; "),
    };
    let cost =
        report.cost().map_or_else(String::new, |cost| format!("{cost:.1?} of CPU time per datagram, "));
    writeln!(output, "{:.1?}: {clients}{away}{cost}{:.1?} waiting for a CPU", report.elapsed, report.waited)?;
    match invalid {
        [] => writeln!(output, "valid: the path behaved like the model"),
        reasons => reasons.iter().try_for_each(|reason| writeln!(output, "invalid: {reason}")),
    }
}

/// Returns the report as one object.
pub(crate) fn to_json(report: &Report, invalid: &[InvalidReason], ways: &[String; 2], seed: u64) -> Value {
    let reasons: Vec<String> = invalid.iter().map(ToString::to_string).collect();
    json!({
        "event": "report",
        "seconds": report.elapsed.as_secs_f64(),
        "seed": seed,
        "there": way_json(&report.forward, &ways[0]),
        "back": way_json(&report.reverse, &ways[1]),
        "clients": report.clients,
        "turned_away": report.turned_away,
        "ran_ns": nanos(report.ran),
        "waited_ns": nanos(report.waited),
        "cost_ns": report.cost().map(nanos),
        "is_void": !invalid.is_empty(),
        "void": reasons,
    })
}

fn way_json(way: &Way, conditions: &str) -> Value {
    let mut way = json!(way);
    way["conditions"] = conditions.into();
    way
}

/// Returns the account equation with its numbers; zero terms are left out.
fn account_text(account: &Account) -> String {
    let mut text = format!("{} received ({})", account.taken, decimal_size(account.taken_bytes));
    if account.duplicated > 0 {
        text += &format!(" + {} duplicated", account.duplicated);
    }
    text += &format!(" = {} forwarded ({})", account.passed, decimal_size(account.passed_bytes));
    let kinds = account.lost.by_name().into_iter().filter(|(_, count)| *count > 0);
    let kinds: Vec<String> = kinds.map(|(name, count)| format!("{name} {count}")).collect();
    if !kinds.is_empty() {
        text += &format!(" + {} lost ({})", account.lost.sum(), kinds.join(", "));
    }
    let others = [
        (account.refused, "refused by this host"),
        (account.no_listener, "without a listener"),
        (account.overrun, "dropped for lack of memory"),
        (account.held, "still in flight"),
    ];
    for (count, what) in others.into_iter().filter(|(count, _)| *count > 0) {
        text += &format!(" + {count} {what}");
    }
    text
}

fn late_text(late: &Lateness) -> String {
    let Lateness { count, p50, p99, p999, max } = late;
    if *count == 0 {
        return "nothing was forwarded".to_owned();
    }
    format!("p50 {p50:.1?}, p99 {p99:.1?}, p99.9 {p999:.1?}, max {max:.1?}")
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use emulator::Lost;

    fn report() -> Report {
        let lost = Lost { random: 9, placed: 2, ..Lost::default() };
        let account = Account {
            taken: 1_000,
            taken_bytes: 1_472_000,
            duplicated: 1,
            passed: 987,
            passed_bytes: 1_452_864,
            lost,
            held: 3,
            ..Account::default()
        };
        let micros = Duration::from_micros;
        let lateness =
            Lateness { count: 987, p50: micros(6), p99: micros(80), p999: micros(150), max: micros(900) };
        Report {
            elapsed: Duration::from_secs(2),
            forward: Way { account, lateness, ..Way::default() },
            clients: 1,
            ran: micros(3_000),
            waited: micros(250),
            ..Report::default()
        }
    }

    #[test]
    fn people_read_the_law_and_the_verdict() {
        let mut text = Vec::new();
        print(&report(), &[], &mut text).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "forward 1000 received (1.47 MB) + 1 duplicated = 987 forwarded (1.45 MB) + 11\n        lost (placed 2, random 9) + 3 still in flight\n\
             reverse 0 received (0 B) = 0 forwarded (0 B)\n\
             late forward p50 6.0µs, p99 80.0µs, p99.9 150.0µs, max 900.0µs\n\
             late reverse nothing was forwarded\n\
             2.0s: 1 client; 3.0µs of CPU time per datagram, 250.0µs waiting for a CPU\n\
             valid: the path behaved like the model\n"
        );
        let mut text = Vec::new();
        print(&report(), &[InvalidReason::Unseen(3)], &mut text).unwrap();
        assert!(
            String::from_utf8(text)
                .unwrap()
                .ends_with("invalid: 3 datagrams were dropped before the emulator read them\n")
        );
    }

    #[test]
    fn programs_read_every_term() {
        let report =
            to_json(&report(), &[InvalidReason::Refused(4)], &["10ms".to_owned(), "20ms".to_owned()], 7);
        assert_eq!(report["there"]["lost"]["random"], 9);
        assert_eq!(report["there"]["late"]["p999_ns"], 150_000);
        assert_eq!((&report["back"]["conditions"], &report["seed"]), (&"20ms".into(), &7.into()));
        assert_eq!((&report["is_void"], report["void"].as_array().unwrap().len()), (&true.into(), 1));
        let forward = |name: &str| report["there"][name].as_u64().unwrap();
        let lost: u64 = report["there"]["lost"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
        let ended = ["passed", "refused", "no_listener", "overrun", "held"].map(forward).iter().sum::<u64>();
        assert_eq!(forward("taken") + forward("duplicated"), ended + lost);
    }
}
