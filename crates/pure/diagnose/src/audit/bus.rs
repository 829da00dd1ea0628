//! Security of a bus: streams in clear, keys and certificates that run out, clocks that are off.

use core::fmt::Write as _;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::{Check, Judgement};
use crate::Remedy;

/// Time before the end of a certificate from which it is to be renewed, as `tallycast keys check` has it.
const EARLY: Duration = Duration::from_secs(14 * 86_400);
/// Difference from which a publisher's clock is off: announcements take milliseconds.
const OFF: Duration = Duration::from_secs(1);
/// Agreement of several publishers' differences from which this host's clock is suspected.
const ALIKE_NS: u64 = 1_000_000_000;
/// Names that a finding lists; of more it tells the number.
const MAX_NAMES: usize = 6;
const NS_PER_S: f64 = 1e9;

/// Facts about a bus, from its announcements and this station's file of keys.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Bus {
    /// Reason why nothing could be heard.
    pub deaf: Option<String>,
    /// Time of listening.
    pub listened: Duration,
    /// File of keys; `None` for a bus without keys.
    pub keys: Option<Keys>,
    /// Streams that were announced.
    pub streams: Vec<Announced>,
    /// Stations whose authentic announcements were heard.
    pub stations: Vec<Described>,
    /// Maximum difference between clocks that readers accept.
    pub clock_bound: Duration,
}

/// State of this station's file of keys.
#[derive(Clone, PartialEq, Debug)]
pub struct Keys {
    /// Path of the file.
    pub path: String,
    /// Its content, or why it cannot be used, with the remedy on further lines.
    pub content: Result<KeyContent, String>,
}

/// Content of a usable file of keys.
#[derive(Clone, PartialEq, Debug)]
pub struct KeyContent {
    /// Name of the station.
    pub station: String,
    /// Address of the key service that has the secrets; `None` if they are in the file.
    pub service: Option<String>,
    /// Time until the certificate ends.
    pub certificate_left: Duration,
    /// Public name of the secret that is sent with.
    pub in_use: String,
    /// True if its time is still to come: then it is sent with for want of another.
    pub is_early: bool,
    /// Public names of secrets that come later.
    pub next: Vec<String>,
    /// Public names of secrets that are only accepted.
    pub accepted: Vec<String>,
}

/// A stream, as one address announces it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Announced {
    /// Address of the publisher.
    pub from: IpAddr,
    /// Protection of the announcement.
    pub protection: Protection,
}

/// A station, as its description of a stream shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Described {
    /// Name of the station.
    pub station: String,
    /// Address of its publisher.
    pub from: IpAddr,
    /// Its certificate; `None` if no description arrived.
    pub certificate: Option<Validity>,
}

/// Validity of a station's certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Validity {
    /// It is believed for so long.
    Left(Duration),
    /// It has ended.
    Ended,
    /// It is not believed for another reason.
    NotBelieved(String),
}

/// Protection of an announcement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Protection {
    /// None: anybody could have sent it.
    Clear {
        /// Name of the stream.
        name: String,
        /// Name of the station.
        station: String,
    },
    /// Authentic.
    Secured {
        /// Name of the stream.
        name: String,
        /// Name of the station.
        station: String,
        /// Public name of its secret.
        token: String,
        /// Time by which the publisher's clock is ahead of this host's. Units: nanoseconds.
        ahead_ns: i64,
    },
    /// Of a secret that this host does not have.
    NoKey {
        /// Public name of the secret.
        token: String,
    },
    /// Its tag does not belong to its bytes.
    BadTag,
}

/// Checks a bus.
#[must_use]
pub fn audit(bus: &Bus) -> Vec<Check> {
    [streams(bus), keys(bus), secrets(bus), certificates(bus), clocks(bus)].into_iter().flatten().collect()
}

fn streams(bus: &Bus) -> Vec<Check> {
    const CHECK: &str = "bus-streams";
    if let Some(why) = &bus.deaf {
        return vec![Check::not_seen(CHECK, why)];
    }
    let clear: BTreeSet<String> = bus
        .streams
        .iter()
        .filter_map(|it| match &it.protection {
            Protection::Clear { name, station } => Some(format!("{name} of {station} ({})", it.from)),
            _ => None,
        })
        .collect();
    let secured = bus.streams.iter().filter(|it| matches!(it.protection, Protection::Secured { .. })).count();
    let listened = format!("within {:.1} s", bus.listened.as_secs_f64());
    if bus.streams.is_empty() {
        let why = "a stream in clear can be read, changed and forged by every host on its way";
        return vec![Check::new(CHECK, Judgement::Ok, format!("none announced {listened}"), why)];
    }
    if clear.is_empty() {
        let why = "what is announced is authentic, or is not heard by members";
        return vec![Check::new(CHECK, Judgement::Ok, format!("{secured} secured, none in clear"), why)];
    }
    let live = format!("in clear: {}; secured: {secured}", listed(&clear));
    let (why, remedy) = if bus.keys.is_some() {
        (
            "the bus of this host has keys, so its readers refuse streams in clear; a stream of the same name in clear may be a forgery",
            "give their publishers the laboratory's keys: tallycast keys add STATION --authority LAB.authority --like STATION.keys",
        )
    } else {
        (
            "every host on their way can read, change and forge them",
            "make keys: tallycast keys new (docs/guide/secure-a-bus.md)",
        )
    };
    vec![Check::new(CHECK, Judgement::Warn, live, why).recommending("all secured", [Remedy::by_hand(remedy)])]
}

fn keys(bus: &Bus) -> Vec<Check> {
    const CHECK: &str = "bus-keys";
    let Some(Keys { path, content }) = &bus.keys else { return Vec::new() };
    let renew = || format!("tallycast keys renew {path} --authority LAB.authority");
    let content = match content {
        Ok(content) => content,
        Err(error) => {
            let (what, remedy) = error.split_once('\n').unwrap_or((error, "see: tallycast keys check FILE"));
            let why =
                "without a usable file of keys no program of this bus starts, and none goes on in clear";
            let remedy = Remedy::by_hand(&remedy.replace('\n', "; "));
            return vec![
                Check::new(CHECK, Judgement::Fail, what, why).recommending("a usable file", [remedy]),
            ];
        }
    };
    let KeyContent { station, certificate_left, in_use, is_early, next, accepted, .. } = content;
    let days = certificate_left.as_secs() / 86_400;
    let many = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(" ") };
    let live = format!(
        "station {station}: certificate for {days} d; in use {in_use}; next {}; accepted {}",
        many(next),
        many(accepted)
    );
    if *is_early {
        let why = "the time of no secret has come: this host's clock is behind, or the file is not for now";
        return vec![Check::new(CHECK, Judgement::Fail, live, why).recommending(
            "a secret whose time has come",
            [Remedy::by_hand("check the clock: timedatectl")],
        )];
    }
    let why = "after its end the station's descriptions are not believed, and its programs do not start";
    if *certificate_left <= EARLY {
        return vec![
            Check::new(CHECK, Judgement::Warn, live, why)
                .recommending("a certificate for more than 14 d", [Remedy::by_hand(&renew())]),
        ];
    }
    vec![Check::new(CHECK, Judgement::Ok, live, why)]
}

/// Checks the secrets of others: those that this host lacks, and those that are being replaced.
fn secrets(bus: &Bus) -> Vec<Check> {
    const CHECK: &str = "bus-secrets";
    let mut unreadable: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut forged = BTreeSet::new();
    for Announced { from, protection } in &bus.streams {
        match protection {
            Protection::NoKey { token } => {
                unreadable.entry(token.clone()).or_default().insert(from.to_string());
            }
            Protection::BadTag => {
                forged.insert(from.to_string());
            }
            Protection::Clear { .. } | Protection::Secured { .. } => {}
        }
    }
    let mut checks = Vec::new();
    for (token, from) in &unreadable {
        let live = format!("secret {token}, of {}", listed(from));
        let (why, remedy) = match &bus.keys {
            None => (
                "streams are secured, and this bus names no file of keys: they cannot be read here",
                "add keys=FILE to the bus: docs/guide/secure-a-bus.md".to_owned(),
            ),
            Some(Keys { path, content }) => {
                match content.as_ref().ok().and_then(|content| content.service.as_ref()) {
                    None => (
                        "this station lacks their secret: a rotation has not reached it, the secret was retired here, or they are of another laboratory",
                        format!("compare the files: tallycast keys show {path}, and copy the current one"),
                    ),
                    Some(service) => (
                        "the key service has not given this station their secret: it does not answer one of the two, or they have secrets from elsewhere",
                        format!(
                            "compare the key services in the files: tallycast keys show {path}; here it is {service}"
                        ),
                    ),
                }
            }
        };
        checks.push(
            Check::new(CHECK, Judgement::Warn, live, why)
                .recommending("one that this station has", [Remedy::by_hand(&remedy)]),
        );
    }
    if !forged.is_empty() {
        let live = format!("changed or forged announcements from {}", listed(&forged));
        let why = "they name a secret of this laboratory and do not have it; members ignore and count them";
        let remedy =
            Remedy::by_hand("find the host by its address, and what it runs; addresses can be forged, too");
        checks.push(Check::new(CHECK, Judgement::Warn, live, why).recommending("none", [remedy]));
    }
    let in_use = bus.keys.as_ref().and_then(|keys| Some(&keys.content.as_ref().ok()?.in_use));
    let behind: BTreeSet<String> = bus
        .streams
        .iter()
        .filter_map(|it| match &it.protection {
            Protection::Secured { station, token, .. } if Some(token) != in_use => {
                Some(format!("{station} with {token}"))
            }
            _ => None,
        })
        .collect();
    if let (Some(in_use), false) = (in_use, behind.is_empty()) {
        let live = format!("{}; this station with {in_use}", listed(&behind));
        let why = "a rotation is under way: until all send with one secret, the old one cannot be retired";
        checks.push(Check::new(CHECK, Judgement::Ok, live, why));
    }
    checks
}

/// Checks the certificates of the stations that are heard: their publishers may have been started long ago.
fn certificates(bus: &Bus) -> Vec<Check> {
    const CHECK: &str = "bus-certificates";
    let (mut live, mut unseen) = (BTreeSet::new(), BTreeSet::new());
    let (mut soon, mut ended, mut distrusted) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for Described { station, from, certificate } in &bus.stations {
        let place = format!("{station} ({from})");
        let (list, text) = match certificate {
            None => (&mut unseen, place),
            Some(Validity::Left(left)) => {
                let list = if *left <= EARLY { &mut soon } else { &mut live };
                (list, format!("{place} for {} d", left.as_secs() / 86_400))
            }
            Some(Validity::Ended) => (&mut ended, format!("{place} has ended")),
            Some(Validity::NotBelieved(why)) => (&mut distrusted, format!("{place}: {why}")),
        };
        list.insert(text);
    }
    let renew = "where the authority's file is: tallycast keys renew STATION.keys --authority LAB.authority; then copy the \
                 file to its station, whose programs follow it";
    let why = "after its end no reader that joins believes what the station publishes";
    let renewed = |judgement, names: &BTreeSet<String>| {
        let better = "a certificate for more than 14 d";
        Check::new(CHECK, judgement, listed(names), why).recommending(better, [Remedy::by_hand(renew)])
    };
    let mut checks = Vec::new();
    if !ended.is_empty() {
        checks.push(renewed(Judgement::Fail, &ended));
    }
    if !distrusted.is_empty() {
        let why = "readers refuse its descriptions, so they receive nothing of its streams";
        let remedy = Remedy::by_hand("compare both files of keys: tallycast keys check FILE FILE");
        let check = Check::new(CHECK, Judgement::Fail, listed(&distrusted), why);
        checks.push(check.recommending("a station of this laboratory", [remedy]));
    }
    if !soon.is_empty() {
        checks.push(renewed(Judgement::Warn, &soon));
    }
    if !live.is_empty() {
        checks.push(Check::new(CHECK, Judgement::Ok, listed(&live), why));
    }
    if !unseen.is_empty() {
        let why =
            format!("no description arrived of {}; read the file: tallycast keys check", listed(&unseen));
        checks.push(Check::not_seen(CHECK, &why));
    }
    checks
}

fn clocks(bus: &Bus) -> Vec<Check> {
    const CHECK: &str = "bus-clocks";
    let mut by_station: BTreeMap<String, i64> = BTreeMap::new();
    for Announced { from, protection } in &bus.streams {
        if let Protection::Secured { station, ahead_ns, .. } = protection {
            // What arrives late seems to be behind: the least difference is the best.
            let least = by_station.entry(format!("{station} ({from})")).or_insert(*ahead_ns);
            if ahead_ns.unsigned_abs() < least.unsigned_abs() {
                *least = *ahead_ns;
            }
        }
    }
    let Some(largest) = by_station.values().map(|ahead| ahead.unsigned_abs()).max() else {
        return Vec::new();
    };
    let why = "samples have their publishers' times; descriptions that seem to be issued at another time are refused";
    if u128::from(largest) < OFF.as_nanos() {
        let live = format!("{} within {:.0} ms of this host's", by_station.len(), largest as f64 / 1e6);
        return vec![Check::new(CHECK, Judgement::Ok, live, why)];
    }
    let off: BTreeSet<String> = by_station
        .iter()
        .filter(|(_, ahead)| u128::from(ahead.unsigned_abs()) >= OFF.as_nanos())
        .map(|(station, ahead)| {
            let way = if *ahead > 0 { "ahead" } else { "behind" };
            format!("{station} {:.1} s {way}", ahead.unsigned_abs() as f64 / NS_PER_S)
        })
        .collect();
    let (first, last) = (by_station.values().min(), by_station.values().max());
    let are_alike = first.zip(last).is_some_and(|(first, last)| last.abs_diff(*first) < ALIKE_NS);
    let culprit = if are_alike && by_station.len() > 1 {
        "all agree with each other: set this host's clock"
    } else {
        "set the clock that the time of a third host contradicts; the check `clock` tells whether this host's is disciplined"
    };
    let judgement =
        if u128::from(largest) > bus.clock_bound.as_nanos() { Judgement::Fail } else { Judgement::Warn };
    let bound = format!("within {} s, as readers demand; better 0.1 s", bus.clock_bound.as_secs());
    vec![Check::new(CHECK, judgement, listed(&off), why).recommending(bound, [Remedy::by_hand(culprit)])]
}

/// Returns the first names, and the number of the others.
fn listed(names: &BTreeSet<String>) -> String {
    let mut text = names.iter().take(MAX_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    if let Some(more) = names.len().checked_sub(MAX_NAMES).filter(|more| *more > 0) {
        let _ = write!(text, " and {more} more");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn from(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn secured(last: u8, ahead_ms: i64) -> Announced {
        let (name, station) = (format!("lab/{last}"), format!("daq-{last}"));
        let protection =
            Protection::Secured { name, station, token: "0000000a".into(), ahead_ns: ahead_ms * 1_000_000 };
        Announced { from: from(last), protection }
    }

    fn clear(last: u8) -> Announced {
        let (name, station) = (format!("lab/{last}"), format!("daq-{last}"));
        Announced { from: from(last), protection: Protection::Clear { name, station } }
    }

    fn described(last: u8, certificate: Option<Validity>) -> Described {
        Described { station: format!("daq-{last}"), from: from(last), certificate }
    }

    fn content() -> KeyContent {
        KeyContent {
            station: "daq-1".into(),
            service: None,
            certificate_left: 300 * DAY,
            in_use: "0000000a".into(),
            is_early: false,
            next: Vec::new(),
            accepted: Vec::new(),
        }
    }

    fn keyed(content: Result<KeyContent, String>) -> Bus {
        let keys = Some(Keys { path: "/lab/daq-1.keys".into(), content });
        Bus { keys, clock_bound: Duration::from_secs(900), ..Bus::default() }
    }

    fn of<'a>(checks: &'a [Check], name: &str) -> Vec<&'a Check> {
        checks.iter().filter(|it| it.name == name).collect()
    }

    #[test]
    fn every_check_is_in_the_list_of_names_and_what_is_wrong_has_a_remedy() {
        let mut bus = keyed(Ok(content()));
        let no_key = Protection::NoKey { token: "0000000b".into() };
        bus.streams = vec![
            clear(1),
            secured(2, 90_000),
            Announced { from: from(3), protection: no_key },
            Announced { from: from(4), protection: Protection::BadTag },
        ];
        bus.stations = vec![described(2, Some(Validity::Ended)), described(3, Some(Validity::Left(DAY)))];
        let checks = audit(&bus);
        let names: BTreeSet<_> = checks.iter().map(|it| it.name).collect();
        assert_eq!(
            names,
            ["bus-streams", "bus-keys", "bus-secrets", "bus-certificates", "bus-clocks"].into()
        );
        assert!(names.iter().all(|name| super::super::CHECK_NAMES.contains(name)));
        for check in checks.iter().filter(|it| it.judgement >= Judgement::Warn) {
            assert!(check.recommended.is_some() && !check.remedies.is_empty(), "{check:?}");
        }
    }

    #[test]
    fn streams_in_clear_are_named_and_secured_ones_are_fine() {
        let judged = |keys: bool, streams: Vec<Announced>| {
            let bus = if keys { keyed(Ok(content())) } else { Bus::default() };
            let checks = audit(&Bus { streams, ..bus });
            let check = of(&checks, "bus-streams")[0].clone();
            (check.judgement, check.live)
        };
        assert_eq!(judged(true, vec![secured(1, 0)]).0, Judgement::Ok);
        assert_eq!(judged(false, Vec::new()).0, Judgement::Ok);
        for keys in [false, true] {
            let (judgement, live) = judged(keys, vec![clear(7), secured(1, 0)]);
            assert_eq!(judgement, Judgement::Warn);
            assert!(live.contains("lab/7 of daq-7 (192.0.2.7)") && live.contains("secured: 1"), "{live}");
        }
        let (_, live) = judged(true, (1..=8).map(clear).collect());
        assert!(live.contains(" and 2 more"), "{live}");
        let deaf = Bus { deaf: Some("no interface".into()), ..Bus::default() };
        assert_eq!(audit(&deaf)[0].judgement, Judgement::NotSeen);
    }

    #[test]
    fn a_certificate_warns_from_fourteen_days_before_its_end_and_a_bad_file_fails() {
        let judged = |content| audit(&keyed(content))[1].clone();
        let left = |certificate_left| judged(Ok(KeyContent { certificate_left, ..content() }));
        assert_eq!(left(14 * DAY + Duration::from_nanos(1)).judgement, Judgement::Ok);
        let check = left(14 * DAY);
        assert_eq!(check.judgement, Judgement::Warn);
        assert!(check.remedies[0].what.contains("keys renew /lab/daq-1.keys"), "{check:?}");
        let check = judged(Err("others may read it\nchmod 600 /lab/daq-1.keys".into()));
        assert_eq!((check.judgement, check.live.as_str()), (Judgement::Fail, "others may read it"));
        assert_eq!(check.remedies[0].what, "chmod 600 /lab/daq-1.keys");
        assert_eq!(judged(Ok(KeyContent { is_early: true, ..content() })).judgement, Judgement::Fail);
    }

    #[test]
    fn certificates_of_others_are_told_with_their_days_and_those_that_end_soon_or_are_over_first() {
        let judged = |stations: Vec<Described>| {
            let checks = audit(&Bus { stations, ..keyed(Ok(content())) });
            let of_stations = of(&checks, "bus-certificates").into_iter();
            of_stations.map(|it| (it.judgement, it.live.clone())).collect::<Vec<_>>()
        };
        assert_eq!(judged(Vec::new()), []);
        let left = |left| Some(Validity::Left(left));
        let (late, early) = (left(14 * DAY + Duration::from_nanos(1)), left(14 * DAY));
        assert_eq!(
            judged(vec![described(1, late.clone())]),
            [(Judgement::Ok, "daq-1 (192.0.2.1) for 14 d".to_owned())]
        );
        let foreign = Some(Validity::NotBelieved("it is of another authority".to_owned()));
        let all = [early, Some(Validity::Ended), None, late, foreign];
        let all = judged((1..).zip(all).map(|(last, certificate)| described(last, certificate)).collect());
        let texts = [
            (Judgement::Fail, "daq-2 (192.0.2.2) has ended"),
            (Judgement::Fail, "daq-5 (192.0.2.5): it is of another authority"),
            (Judgement::Warn, "daq-1 (192.0.2.1) for 14 d"),
            (Judgement::Ok, "daq-4 (192.0.2.4) for 14 d"),
            (Judgement::NotSeen, "?"),
        ];
        assert_eq!(all, texts.map(|(judgement, live)| (judgement, live.to_owned())));
    }

    #[test]
    fn a_clock_is_off_from_a_second_and_refused_beyond_the_bound() {
        let judged = |streams: Vec<Announced>| {
            let checks = audit(&Bus { streams, ..keyed(Ok(content())) });
            of(&checks, "bus-clocks").first().map(|it| (*it).clone())
        };
        assert_eq!(judged(vec![clear(1)]), None, "clear announcements have no time");
        assert_eq!(judged(vec![secured(1, 999)]).unwrap().judgement, Judgement::Ok);
        for ahead_ms in [1_000, -1_000, 900_000] {
            assert_eq!(judged(vec![secured(1, ahead_ms)]).unwrap().judgement, Judgement::Warn);
        }
        let check = judged(vec![secured(1, -900_001), secured(2, 0)]).unwrap();
        assert_eq!(check.judgement, Judgement::Fail);
        assert_eq!(check.live, "daq-1 (192.0.2.1) 900.0 s behind");
        assert!(!check.remedies[0].what.contains("this host's clock"), "{check:?}");
        let check = judged(vec![secured(1, 70_000), secured(2, 70_100)]).unwrap();
        assert!(check.remedies[0].what.contains("set this host's clock"), "{check:?}");
        let late = judged(vec![secured(1, -3_000), secured(1, -5)]).unwrap();
        assert_eq!(late.judgement, Judgement::Ok, "the least difference of a station counts");
    }

    #[test]
    fn a_secret_that_this_host_lacks_is_told_with_its_name_and_a_rotation_is_no_fault() {
        let no_key =
            |last| Announced { from: from(last), protection: Protection::NoKey { token: "0000000b".into() } };
        let checks = audit(&Bus { streams: vec![no_key(3), no_key(4)], ..keyed(Ok(content())) });
        let [check] = of(&checks, "bus-secrets")[..] else { panic!("{checks:?}") };
        assert_eq!(check.live, "secret 0000000b, of 192.0.2.3, 192.0.2.4");
        let checks = audit(&Bus { streams: vec![no_key(3)], ..Bus::default() });
        assert!(of(&checks, "bus-secrets")[0].remedies[0].what.contains("keys=FILE"));
        let of_service = KeyContent { service: Some("keys.lab.example:7409".into()), ..content() };
        for (content, remedy) in
            [(content(), "copy the current one"), (of_service, "here it is keys.lab.example:7409")]
        {
            let checks = audit(&Bus { streams: vec![no_key(3)], ..keyed(Ok(content)) });
            let what = &of(&checks, "bus-secrets")[0].remedies[0].what;
            assert!(what.contains(remedy), "{what}");
        }
        let next = KeyContent { in_use: "0000000c".into(), ..content() };
        let checks = audit(&Bus { streams: vec![secured(1, 0)], ..keyed(Ok(next)) });
        let [check] = of(&checks, "bus-secrets")[..] else { panic!("{checks:?}") };
        assert_eq!(
            (check.judgement, check.live.as_str()),
            (Judgement::Ok, "daq-1 with 0000000a; this station with 0000000c")
        );
    }

    #[test]
    fn forged_announcements_warn_with_the_addresses_that_they_come_from() {
        let forged = |last| Announced { from: from(last), protection: Protection::BadTag };
        let checks =
            audit(&Bus { streams: vec![secured(1, 0), forged(3), forged(4)], ..keyed(Ok(content())) });
        let [check] = of(&checks, "bus-secrets")[..] else { panic!("{checks:?}") };
        assert_eq!(
            (check.judgement, check.live.as_str()),
            (Judgement::Warn, "changed or forged announcements from 192.0.2.3, 192.0.2.4")
        );
    }
}
