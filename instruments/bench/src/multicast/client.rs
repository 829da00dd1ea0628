//! The client's end: runs of one flow to the group, and the report of them.

use super::options::Options;
use super::report::{Builder, Ended, Report};
use crate::control::{Begun, Patience, ServerAt, begin};
use crate::host;
use crate::options::group_for;
use crate::report::{Times, Watch};
use crate::throughput::{self, Account, Counts, Ending, Protocol, Runs, Throughput, ThroughputError};

/// Measures with the server at an address and returns the report.
///
/// # Errors
/// [`ThroughputError`] if nothing could be measured. Failures after the first run has begun are in the report.
pub fn measure(
    options: &Options,
    server: ServerAt<'_>,
    patience: Patience,
    watch: &mut dyn Watch,
) -> Result<Report, ThroughputError> {
    options.check()?;
    let group = Some(group_for(server.address.ip(), options.group, GROUP_KIND)?);
    let options = &Options { group, ..options.clone() };
    let flow = flow(options);
    let Begun { connection, client, server } = begin::<Throughput>(&flow, server, options.from, patience)?;
    let mut builder = Builder::new(options, connection.peer_address(), client, server);
    let mut runs = Runs { options: &flow, connection, unit_bytes: options.payload_bytes };
    let mut has_begun = false;
    for run in 0..options.repeats {
        if watch.cancellation().is_cancelled() {
            break;
        }
        watch.progress(&|| format!("run {} of {}", run + 1, options.repeats));
        let ended = runs.prepare(run, options.rate).and_then(|flows| {
            has_begun = true;
            runs.run(flows, options.rate, watch.cancellation(), &mut |_, _, _| {})
        });
        let ended = match ended {
            Err(error) if !has_begun => return Err(error.into()),
            ended => ended.map_err(|error| error.to_string()).and_then(Ended::of),
        };
        match ended {
            Ok(ended) => builder.add(run, ended),
            Err(reason) => {
                builder.break_off(&reason);
                break;
            }
        }
    }
    runs.connection.part();
    Ok(builder.finish(watch.cancellation().is_cancelled()))
}

/// Last number of the usual groups of this measurement.
const GROUP_KIND: u8 = 2;

/// Returns the flow to the group.
fn flow(options: &Options) -> throughput::Options {
    throughput::Options {
        protocol: Protocol::Multicast,
        receivers: options.receivers,
        group: options.group,
        rate: Some(options.rate),
        payload_bytes: Some(options.payload_bytes),
        buffer_bytes: options.buffer_bytes,
        // `buffer_bytes` is for the members; the sender keeps the system's.
        send_buffer_bytes: host::send_buffer_default(),
        duration: options.duration,
        interval: options.duration,
        repeats: options.repeats,
        from: options.from,
        delay_percentiles: true,
        ..throughput::Options::default()
    }
}

/// Counts of a member.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct MemberResult {
    pub(super) account: Account,
    pub(super) reordered: u64,
    /// Latencies since the sender's call, on the server's clock: meaningful only if the sender has the same
    /// clock.
    pub(super) latency: Option<Times>,
}

impl Ended {
    /// Returns the counts of a run; if the server is gone, the reason why there are none.
    fn of(counts: Counts) -> Result<Self, String> {
        let Counts { ours, theirs, ending } = counts;
        let was_stopped = ending == Ending::Stopped;
        let failures = match ending {
            Ending::Trouble(trouble) => vec![trouble],
            Ending::Whole | Ending::Stopped => Vec::new(),
        };
        let Some(theirs) = theirs else { return Err(failures.concat()) };
        let members = theirs.flows.into_iter().filter_map(|flow| {
            let (account, reordered, latency) = (flow.account?, flow.total.out_of_order, flow.delays);
            Some((flow.key.receiver?, MemberResult { account, reordered, latency }))
        });
        Ok(Self {
            members: members.collect(),
            ours: ours.used,
            theirs: theirs.used,
            skipped: ours.flows.iter().map(|flow| flow.skipped).sum(),
            failures,
            notes: [theirs.notes, ours.notes].concat(),
            was_stopped,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::Duration;

    use super::*;
    use crate::control::Message;
    use crate::control::scene::{PATIENT, Unwatched, by_hand};
    use crate::report::State;
    use crate::throughput::{FlowResult, SideResult, Word};

    #[test]
    fn a_group_has_the_ip_version_of_the_server() {
        let refused = |group: &str, server: &str| {
            let options = Options { group: Some(group.parse().unwrap()), ..Options::default() };
            measure(
                &options,
                server.parse::<std::net::SocketAddr>().unwrap().into(),
                PATIENT,
                &mut Unwatched::default(),
            )
            .unwrap_err()
            .to_string()
        };
        let error = refused("239.84.7.2", "[fd84::2]:7430");
        assert!(error.ends_with("different IP versions\nchoose a group such as ff15::84:7:2"), "{error}");
        let error = refused("ff15::1", "192.0.2.7:7430");
        assert!(error.ends_with("different IP versions\nchoose a group such as 239.84.7.2"), "{error}");
        let usual = |server: &str| group_for(server.parse().unwrap(), None, GROUP_KIND).unwrap().to_string();
        assert_eq!(["::ffff:192.0.2.7", "fd84::2"].map(usual), ["239.84.7.2", "ff15::84:7:2"]);
    }

    /// Returns the counts of a server that has these members.
    fn side(members: &[u32], failures: &[&str]) -> SideResult {
        let flow = |receiver: &u32| {
            let sent = u64::from(*receiver) + 1;
            let account = Some(Account { sent, received: sent, ..Account::sum(&[]) });
            FlowResult { account, ..FlowResult::example(Some(*receiver)) }
        };
        let failures = failures.iter().map(ToString::to_string).collect();
        SideResult { flows: members.iter().map(flow).collect(), failures, ..SideResult::default() }
    }

    /// Measures with a server that survives `runs` runs, and is gone in the next.
    fn gone_after(runs: usize) -> Report {
        let (server, thread) = by_hand(move |mut connection| {
            let endpoints = vec![std::net::SocketAddr::new(IpAddr::from([239, 84, 7, 2]), 9)];
            for run in 0..=runs {
                assert!(matches!(connection.hear_surely(), Ok(Message::Word(_))), "prepare");
                connection.say(&Word::Ready { endpoints: endpoints.clone(), token: 1 }).unwrap();
                assert_eq!(connection.hear_word_surely::<Word>().unwrap(), Word::Start);
                connection.say(&Word::Start).unwrap();
                if run < runs {
                    while !matches!(connection.hear_word_surely().unwrap(), Word::Sent(_)) {}
                    connection.say(&Word::Done(Box::new(side(&[], &[])))).unwrap();
                }
            }
        });
        let options = Options { duration: Duration::from_millis(50), ..Options::default() };
        let report = measure(&options, server.into(), PATIENT, &mut Unwatched::default()).unwrap();
        thread.join().unwrap();
        report
    }

    #[test]
    fn a_server_that_is_gone_leaves_the_runs_before_and_says_so_also_in_the_first() {
        for runs in [0, 1] {
            let report = gone_after(runs);
            assert_eq!((report.end.state, report.runs.len()), (State::BrokenOff, runs));
            let notes = report.end.notes.join("\n");
            assert!(
                notes.contains("a run broke off: the other end, ") && notes.contains("is gone"),
                "{notes}"
            );
        }
    }

    #[test]
    fn a_member_that_fails_leaves_the_others_their_numbers_also_across_the_connection() {
        let word = serde_json::to_value(side(&[0, 2], &["no memory"])).unwrap();
        let (ours, theirs) = (side(&[], &[]), serde_json::from_value(word).unwrap());
        let ending = Ending::Trouble("at the server: no memory".to_owned());
        let ended = Ended::of(Counts { ours, theirs: Some(theirs), ending }).unwrap();
        let sent: Vec<_> = ended.members.iter().map(|(receiver, it)| (*receiver, it.account.sent)).collect();
        assert_eq!(sent, [(0, 1), (2, 3)]);
        assert_eq!(ended.failures, ["at the server: no memory"]);
    }
}
