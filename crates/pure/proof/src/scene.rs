//! Scene of the tests: a stream whose elements follow from their positions, an authority, and its stations.

use core::ops::Range;

use keys::{Authority, Certificate, PublicKey, SIGNATURE_BYTES, Signature, SigningKey, Station};
use sample::{Channel, Dtype, Schema, StreamName};
use units::{Epoch, SampleRate, WallTime};
use zeroize::Zeroizing;

use crate::{Author, Claims, Grid, Judge, Judged, Subject};

/// Intervals of 30 elements in leaves of 10.
pub(crate) const GRID: Grid = Grid::from_sizes(10, 3).expect("a grid");
pub(crate) const EPOCH: Epoch = Epoch { start_ns: 7, incarnation: 9 };
/// A time within the validity of all certificates.
pub(crate) const NOW: WallTime = WallTime::from_nanos(1_000);

pub(crate) fn name() -> StreamName {
    "lab/probe".parse().unwrap()
}

pub(crate) fn schema() -> Schema {
    Schema::new(Dtype::U16, SampleRate::hz(1_000).unwrap(), vec![Channel::new("u", "V")]).unwrap()
}

pub(crate) fn subject() -> Subject {
    Subject::new(&name(), &schema(), EPOCH, GRID).unwrap()
}

pub(crate) fn bytes(positions: Range<u64>) -> Vec<u8> {
    positions.flat_map(|position| (position as u16).wrapping_mul(40_503).to_le_bytes()).collect()
}

pub(crate) fn authority(seed: u8) -> Authority {
    Authority::new(SigningKey::from_seed(&Zeroizing::new([seed; 32])))
}

pub(crate) fn station(name: &str, seed: u8, authority: &Authority) -> Station {
    let key = SigningKey::from_seed(&Zeroizing::new([seed; 32]));
    let certificate = authority.certify(Certificate {
        name: name.to_owned(),
        signing: key.public(),
        exchange: PublicKey([3; 32]),
        not_before: WallTime::from_nanos(500),
        not_after: WallTime::from_nanos(2_000),
        signature: Signature([0; SIGNATURE_BYTES]),
    });
    Station::new(certificate, key).unwrap()
}

pub(crate) fn author(station_name: &str, seed: u8) -> Author {
    Author::new(station(station_name, seed, &authority(1)), (&name(), &schema(), EPOCH), GRID).unwrap()
}

/// Statements of an author that numbered these ranges, one after each.
pub(crate) fn statements(numbered: &[Range<u64>], end: u64) -> Vec<Vec<u8>> {
    let mut author = author("daq-1", 2);
    let mut found = Vec::new();
    for range in numbered {
        author.take(range.start, &bytes(range.clone()));
        found.extend(author.statement(NOW, 700));
    }
    author.finish(end);
    while let Some(statement) = author.statement(NOW, 700) {
        found.push(statement);
    }
    found
}

pub(crate) fn claims(statements: &[Vec<u8>]) -> Claims {
    let mut claims = Claims::new(&name(), &schema(), EPOCH, authority(1).public(), None);
    statements.iter().for_each(|statement| claims.add(statement));
    claims
}

/// Judges a delivery of these ranges.
pub(crate) fn judged(claims: &Claims, delivered: &[Range<u64>], unnumbered: &[Range<u64>]) -> Vec<Judged> {
    let end = delivered.last().map_or(0, |range| range.end);
    let data: Vec<(u64, Vec<u8>)> =
        delivered.iter().map(|range| (range.start, bytes(range.clone()))).collect();
    judged_of(claims, &data, unnumbered, end)
}

pub(crate) fn judged_of(
    claims: &Claims,
    data: &[(u64, Vec<u8>)],
    unnumbered: &[Range<u64>],
    end: u64,
) -> Vec<Judged> {
    let mut found = Vec::new();
    let unnumbered = unnumbered.iter().cloned().collect();
    let mut judge = Judge::new(claims, 0, unnumbered).expect("a statement");
    for (position, bytes) in data {
        judge.take(*position, bytes, &mut |it| found.push(it));
    }
    judge.finish(end, &mut |it| found.push(it));
    found
}
