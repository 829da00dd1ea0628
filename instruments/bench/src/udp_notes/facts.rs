//! Statements of the notes about UDP: tested here, as far as the loopback interface shows them.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use sys::{
    Interface, Outcome, ReceiveOptions, Refusal, SendOptions, SendSocket, SendTechniques, clock, header_bytes,
};

use crate::capacity::{Point, Run};
use crate::options::LARGEST_DATAGRAM_BYTES;
use crate::report::{Agreement, Conclusion, ReferenceFigure};
use flow::udp;
use units::text;

/// MTU of the loopback interface according to the notes.
const LOOPBACK_MTU_BYTES: u32 = 65_536;

/// Time a datagram may take through the loopback interface.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// Tests each statement.
pub(super) fn look(points: &[Point]) -> Vec<Conclusion> {
    let (quiet, noisy) = super::quiet(points);
    let drops = drops_are_readable(&quiet).without_noisy(noisy);
    vec![largest_datagram(), loopback_mtu(), one_fragment(), drops]
}

/// Compares the sizes, settings and counters that the notes print with those of this program and host.
pub(super) fn table() -> Vec<ReferenceFigure> {
    let mut table = sizes();
    table.extend(counters());
    let buffer = |name: &str| {
        ReferenceFigure::kernel_setting(name, 0, "B", 1e6).remarked("about 1 MB where the load is light")
    };
    table.extend([buffer("net.core.rmem_default"), buffer("net.core.rmem_max")]);
    table.extend([
        ReferenceFigure::printed("cores of the notes' host", "setting", "", 4.0)
            .or("processors are counted, which are threads of cores"),
        ReferenceFigure::setting("use of a disk that calls for an alarm", "%", 80.0, DISK_ALARM_PERCENT)
            .remarked("here: `tallycast doctor` and `tallycast record`"),
    ]);
    table
}

/// Use of a disk from which `tallycast doctor` and `tallycast record` warn (`diagnose::audit`).
const DISK_ALARM_PERCENT: f64 = 80.0;
/// Header of IPv4 without options (RFC 791 §3.1). Units: bytes.
const IPV4_HEADER_BYTES: u32 = 20;

fn sizes() -> Vec<ReferenceFigure> {
    let headers = u32::try_from(header_bytes(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0))));
    let headers = headers.expect("headers are small");
    let size = |what: &str, source: u32, here: u32| {
        ReferenceFigure::printed(what, "size", "B", source.into()).beside(&[here.into()])
    };
    let ethernet = |what: &str, source: u32| {
        ReferenceFigure::printed(what, "size", "B", source.into()).or("Ethernet frames are not examined")
    };
    let largest = u32::try_from(LARGEST_DATAGRAM_BYTES).expect("datagrams are small");
    let loopback = Interface::find("127.0.0.1").ok().map(|interface| f64::from(interface.mtu));
    let loopback: Vec<f64> = loopback.into_iter().collect();
    let internet = u32::try_from(wire::MIN_DATAGRAM_BYTES).expect("datagrams are small");
    vec![
        size("longest packet of IP", 65_535, largest + headers),
        size("header of UDP", 8, headers - IPV4_HEADER_BYTES),
        size("header of IP", 20, IPV4_HEADER_BYTES),
        size("largest payload of a datagram", 65_507, largest),
        ethernet("least data of an Ethernet frame", 46),
        ethernet("most data of an Ethernet frame", 1_500),
        ethernet("head and tail of an Ethernet frame", 18),
        ReferenceFigure::printed("MTU of the loopback interface", "size", "B", LOOPBACK_MTU_BYTES.into())
            .beside(&loopback)
            .or("this host has no loopback interface with 127.0.0.1"),
        size("data of IP within an MTU of 1,500 bytes", 1_480, 1_500 - IPV4_HEADER_BYTES),
        size("payload within an MTU of 1,500 bytes", 1_472, 1_500 - headers),
        size("standard MTU on the Internet", 576, internet + headers),
        size("payload within an MTU of 576 bytes", 548, internet)
            .remarked("the notes' choice on the Internet, and ours until a probe says more"),
    ]
}

/// Compares the notes' sample of `netstat -su` with the counters of this host, which began at its start.
fn counters() -> impl Iterator<Item = ReferenceFigure> {
    const SAMPLE: [(&str, &str, f64); 6] = [
        ("packets received", "UdpInDatagrams", 2_495_354.0),
        ("packets to unknown port received", "UdpNoPorts", 2_100_876.0),
        ("packet receive errors", "UdpInErrors", 3_596_307.0),
        ("packets sent", "UdpOutDatagrams", 14_412_863.0),
        ("RcvbufErrors", "UdpRcvbufErrors", 3_596_307.0),
        ("SndbufErrors", "UdpSndbufErrors", 0.0),
    ];
    let (counters, _) = sys::counters::read();
    SAMPLE.into_iter().map(move |(name, counter, source)| {
        let here: Vec<f64> = counters.get(counter).map(|count| *count as f64).into_iter().collect();
        ReferenceFigure::printed(&format!("netstat -su, {name}"), "packets", "packets", source)
            .beside(&here)
            .remarked("a sample, and here all since this host began; only their growth shows a loss")
            .or("this kernel does not count it")
    })
}

fn largest_datagram() -> Conclusion {
    let source = "the largest payload of a datagram is 65,507 bytes: 65,535 less 8 and 20 bytes of headers";
    match (try_datagram(LARGEST_DATAGRAM_BYTES), try_datagram(LARGEST_DATAGRAM_BYTES + 1)) {
        (Ok(Tried::Arrived(bytes)), Ok(Tried::Refused(Refusal::TooLarge))) => {
            let holds = bytes == LARGEST_DATAGRAM_BYTES;
            let agreement = if holds { Agreement::Agrees } else { Agreement::Differs };
            Conclusion::new(
                source,
                &format!("65,507 were sent and {} arrived; 65,508 were refused (EMSGSIZE)", grouped(bytes)),
                agreement,
            )
        }
        (largest @ Err(_), larger) | (largest, larger @ Err(_)) => {
            let why = format!("65,507: {}; 65,508: {}", in_words(&largest), in_words(&larger));
            Conclusion::not_judged(source, &why)
        }
        (largest, larger) => {
            let here = format!("65,507: {}; 65,508: {}", in_words(&largest), in_words(&larger));
            Conclusion::new(source, &here, Agreement::Differs)
        }
    }
}

/// Outcome of one datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Tried {
    Arrived(usize),
    Refused(Refusal),
    Vanished,
}

fn in_words(tried: &io::Result<Tried>) -> String {
    match tried {
        Ok(Tried::Arrived(bytes)) => format!("{} arrived", grouped(*bytes)),
        Ok(Tried::Refused(why)) => format!("refused, {why}"),
        Ok(Tried::Vanished) => "it did not arrive".to_owned(),
        Err(error) => format!("it could not be tried: {error}"),
    }
}

fn grouped(bytes: usize) -> String {
    text::grouped(bytes as f64)
}

/// Sends a datagram of `bytes` bytes through the loopback interface.
fn try_datagram(bytes: usize) -> io::Result<Tried> {
    let open = |error: sys::OpenError| io::Error::other(error.to_string());
    let anywhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let options = ReceiveOptions::at(anywhere, 1 << 20);
    let mut receiver = udp::Receiver::open(&options, LARGEST_DATAGRAM_BYTES).map_err(open)?;
    let to = receiver.address();
    let mut sender = SendSocket::open(&SendOptions {
        buffer_bytes: 1 << 20,
        techniques: SendTechniques::NONE,
        ..udp::to(to)
    })
    .map_err(open)?;
    if let [Outcome::Refused(refusal)] = sender.send_batch(&[&vec![0; bytes]], to) {
        return Ok(Tried::Refused(*refusal));
    }
    receiver.wait(clock::monotonic() + PATIENCE)?;
    receiver.take()?;
    Ok(receiver.batch.iter().next().map_or(Tried::Vanished, |datagram| Tried::Arrived(datagram.bytes.len())))
}

fn loopback_mtu() -> Conclusion {
    let source = "the MTU of the loopback interface is 65,536 bytes";
    match Interface::find("127.0.0.1") {
        Ok(interface) => {
            let here = format!("that of {} is {} bytes", interface.name, text::grouped(interface.mtu.into()));
            let is_it = interface.mtu == LOOPBACK_MTU_BYTES;
            Conclusion::new(source, &here, if is_it { Agreement::Agrees } else { Agreement::Differs })
        }
        Err(error) => Conclusion::not_judged(source, &error.to_string()),
    }
}

fn one_fragment() -> Conclusion {
    Conclusion::not_judged(
        "a datagram larger than the MTU is cut, and one lost fragment loses all of it",
        "the loopback interface takes the largest datagram whole and loses none on its way",
    )
}

/// Compares the host's own count with those of our sockets, run by run.
fn drops_are_readable(points: &[Point]) -> Conclusion {
    let source =
        "what finds the receive buffer full can be read from the kernel (RcvbufErrors, `netstat -su`)";
    let runs = || points.iter().flat_map(Point::whole_runs);
    let readable: Vec<(&Run, u64)> = runs().filter_map(|run| Some((run, run.rcvbuf_errors?))).collect();
    if readable.is_empty() {
        return Conclusion::not_measured(source);
    }
    let (ours, host): (u64, u64) =
        readable.iter().fold((0, 0), |(ours, host), (run, errors)| (ours + run.drops(), host + errors));
    let exact = readable.iter().filter(|(run, errors)| run.drops() == *errors).count();
    let here = format!(
        "in {exact} of {} runs RcvbufErrors grew by exactly what our sockets dropped; together by {host}, and they dropped {ours}",
        readable.len()
    );
    if ours == 0 && host == 0 {
        return Conclusion::not_judged(source, "nothing found the buffer full");
    }
    Conclusion::new(source, &here, Agreement::of_share(exact, readable.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::{ThreadingModel, example_point};

    #[test]
    fn the_largest_datagram_goes_and_one_more_byte_does_not() {
        let conclusion = largest_datagram();
        assert_eq!(conclusion.agreement, Agreement::Agrees, "{}", conclusion.here);
        assert_eq!(try_datagram(1).unwrap(), Tried::Arrived(1));
    }

    #[test]
    fn the_hosts_count_agrees_where_it_is_exactly_ours() {
        let mut points = vec![example_point(ThreadingModel::OwnProcesses, 1, 1, 1_000, 7)];
        let agreement = |points: &[Point]| drops_are_readable(points).agreement;
        assert_eq!(agreement(&points), Agreement::Agrees);
        points[0].runs[1].rcvbuf_errors = Some(8);
        assert_eq!(agreement(&points), Agreement::Partly);
        points[0].runs[1].trouble = Some("it was cut".to_owned());
        assert_eq!(agreement(&points), Agreement::Agrees);
        points[0].runs.iter_mut().for_each(|run| run.rcvbuf_errors = None);
        assert_eq!(agreement(&points), Agreement::NotMeasured);
        let nothing = vec![example_point(ThreadingModel::OwnProcesses, 1, 1, 1_000, 0)];
        assert!(drops_are_readable(&nothing).here.contains("nothing found the buffer full"));
    }
}
