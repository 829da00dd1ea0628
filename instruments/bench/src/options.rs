//! The checks of options that all tests share, and their one error.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Maximum payload of UDP over IPv4. Source: RFC 768 and 791: 65,535 less 8 and 20 bytes of header.
pub(crate) const LARGEST_DATAGRAM_BYTES: usize = 65_507;

/// Reasons why an option is invalid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// A number is out of its range.
    #[error("{what} must be from {least} to {most}, not {asked}\nchoose one in that range")]
    OutOfRange {
        /// Name of the option.
        what: &'static str,
        /// The given value.
        asked: u128,
        /// The minimum.
        least: u128,
        /// The maximum.
        most: u128,
    },
    /// An option without effect on the measurement: it would be ignored.
    #[error("{option} has no effect {when}\nleave it out, or {remedy}")]
    WithoutEffect {
        /// Name of the option.
        option: &'static str,
        /// Condition under which it has no effect.
        when: &'static str,
        /// Change that would give it an effect.
        remedy: &'static str,
    },
    /// A list is empty.
    #[error("{0} is empty\nname at least one value")]
    Empty(&'static str),
    /// A grid has too many points.
    #[error("the grid has {points} points, more than {most}\nname fewer values in its lists")]
    TooMany {
        /// Its number of points.
        points: u128,
        /// The maximum.
        most: u128,
    },
    /// The address is not a multicast group.
    #[error("{0} is not a multicast group\nchoose one such as 239.84.7.1 or ff15::84:7:1")]
    NoGroup(IpAddr),
    /// Data to a group do not reach a server by the other version of IP.
    #[error(
        "the group {group} and the server {server} are of different IP versions\nchoose a group such as {usual}"
    )]
    GroupOfOtherVersion {
        /// Group as given.
        group: IpAddr,
        /// Address of the server.
        server: IpAddr,
        /// Usual group of the server's IP version.
        usual: IpAddr,
    },
    /// A flood has no meaningful latency.
    #[error(
        "a latency needs a rate: at full speed every queue on the path is full\ngive one with -b, such as -b 1000pps"
    )]
    NoRate,
    /// Empty datagrams have no bit rate.
    #[error(
        "datagrams of 0 bytes have no bit rate\ngive a rate such as -b 1000pps, or -b 0 for as fast as possible"
    )]
    EmptyBits,
    /// A search for the highest rate needs an upper limit.
    #[error("a search for the highest rate without loss needs its limit\ngive it with -b, such as -b 1G")]
    NoLimit,
    /// iperf3 counts times in whole seconds.
    #[error("{name} {value:?} is not a whole number of seconds, in which iperf3 counts")]
    NotWhole {
        /// Name of the option.
        name: &'static str,
        /// The given value.
        value: Duration,
    },
    /// An interval that is too long or too short.
    #[error("an interval of {0:?} is not from 100ms to 60s")]
    Interval(Duration),
    /// A point of a grid cannot be measured.
    #[error("a point of the grid cannot be measured: {0}")]
    Point(Box<Self>),
}

/// Checks that an option is within its range.
pub(crate) fn in_range(
    what: &'static str,
    asked: impl Into<u128>,
    range: RangeInclusive<u128>,
) -> Result<(), OptionsError> {
    let (asked, (least, most)) = (asked.into(), range.into_inner());
    let is_within = (least..=most).contains(&asked);
    is_within.then_some(()).ok_or(OptionsError::OutOfRange { what, asked, least, most })
}

/// Checks the number of repeats of a run.
pub(crate) fn check_repeats(repeats: u32) -> Result<(), OptionsError> {
    in_range("--repeat", repeats, 1..=10_000)
}

/// Checks the size of a socket buffer, if one is requested.
pub(crate) fn check_buffer(what: &'static str, bytes: Option<usize>) -> Result<(), OptionsError> {
    bytes.map_or(Ok(()), |bytes| in_range(what, bytes as u128, 1..=1 << 30))
}

/// Checks that an address is a multicast group.
pub(crate) fn check_group(group: Option<IpAddr>) -> Result<(), OptionsError> {
    group.filter(|group| !group.is_multicast()).map_or(Ok(()), |group| Err(OptionsError::NoGroup(group)))
}

/// Returns the usual group of a kind of measurement, for a server or an own address: of its IP version, with the scope of
/// a site.
pub(crate) fn usual_group(address: IpAddr, kind: u8) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(_) => Ipv4Addr::new(239, 84, 7, kind).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0xff15, 0, 0, 0, 0, 0x84, 7, kind.into()).into(),
    }
}

/// Returns the group for a server: the given one, or the usual one; it must have the IP version by which the server is
/// reached.
pub(crate) fn group_for(server: IpAddr, group: Option<IpAddr>, kind: u8) -> Result<IpAddr, OptionsError> {
    let (server, usual) = (server.to_canonical(), usual_group(server, kind));
    let group = group.unwrap_or(usual);
    let is_same = server.is_ipv4() == group.is_ipv4();
    is_same.then_some(group).ok_or(OptionsError::GroupOfOtherVersion { group, server, usual })
}

/// Checks the lists of a grid, given their lengths: none may be empty, and their combinations are at most `most` points.
pub(crate) fn check_grid(lists: &[(&'static str, usize)], most: u128) -> Result<(), OptionsError> {
    if let Some((name, _)) = lists.iter().find(|(_, len)| *len == 0) {
        return Err(OptionsError::Empty(name));
    }
    let points = lists.iter().map(|(_, len)| *len as u128).product::<u128>();
    if points > most { Err(OptionsError::TooMany { points, most }) } else { Ok(()) }
}

/// Refuses the first option that would be ignored. Each entry has whether the option would be ignored, its name, the
/// condition, and the remedy.
pub(crate) fn check_effects(
    ignored: &[(bool, &'static str, &'static str, &'static str)],
) -> Result<(), OptionsError> {
    let first = ignored.iter().find(|(is_ignored, ..)| *is_ignored);
    first.map_or(Ok(()), |&(_, option, when, remedy)| {
        Err(OptionsError::WithoutEffect { option, when, remedy })
    })
}

/// Returns the options of an empty command line.
pub(crate) fn defaults<O: clap::Args>() -> O {
    let command = O::augment_args(clap::Command::new("bench"));
    let parsed = command.try_get_matches_from(["bench"]).and_then(|matches| O::from_arg_matches(&matches));
    parsed.expect("every option is optional or has a default")
}

/// Tests both ends of ranges: each field of the default `Options` takes the first values and refuses the second.
#[cfg(test)]
macro_rules! bounds {
    ($($field:ident: $takes:expr, not $refuses:expr;)+) => {$(
        let checked = |value| {
            let mut options = Options::default();
            options.$field = value;
            options.check()
        };
        for value in $takes {
            assert_eq!(checked(value), Ok(()), stringify!($field));
        }
        for value in $refuses {
            let said = format!("{} = {value:?}", stringify!($field));
            assert!(checked(value).is_err(), "{said}");
        }
    )+};
}
#[cfg(test)]
pub(crate) use bounds;

/// Returns the option that was refused because it would be ignored.
#[cfg(test)]
pub(crate) fn ignored(checked: Result<(), OptionsError>) -> Option<&'static str> {
    match checked {
        Ok(()) => None,
        Err(OptionsError::WithoutEffect { option, .. }) => Some(option),
        Err(error) => panic!("{error}"),
    }
}
