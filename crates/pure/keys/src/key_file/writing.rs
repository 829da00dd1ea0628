//! Files of keys as text: of their final size at once, because a buffer that grows leaves copies behind.

use core::fmt::Write as _;

use base64ct::{Base64, Encoding};
use units::WallTime;
use zeroize::Zeroizing;

use super::{AuthorityFile, FORMAT, KeyFile, ServiceAt};
use crate::service::{Member, Removed, ServiceFile};
use crate::{GroupSecret, MAX_NAME_BYTES, PublicKey, Secret};

/// Size of 32 bytes in Base64.
const ENCODED_BYTES: usize = 44;
/// Bound of a text with names in the comment and in up to two entries, without lists; an escaped byte has at most 6.
const HEAD_BYTES: usize = 2_048 + 6 * 4 * MAX_NAME_BYTES;
/// Bound of the text of a secret.
const SECRET_TEXT_BYTES: usize = 256;
/// Bound of the text of a peer.
const PEER_TEXT_BYTES: usize = 128 + 6 * MAX_NAME_BYTES;

/// Writes a station's file.
pub(super) fn key_file(file: &KeyFile) -> Zeroizing<String> {
    let lists_bytes = SECRET_TEXT_BYTES * file.secrets.len() + PEER_TEXT_BYTES * file.peers.len();
    let mut text = Zeroizing::new(String::with_capacity(HEAD_BYTES + lists_bytes));
    let (laboratory, station) = (quoted(&file.laboratory), &file.station);
    let name = quoted(&station.certificate.name);
    let mut write =
        |line: core::fmt::Arguments<'_>| writeln!(text, "{line}").expect("a string takes all text");
    write(format_args!(
        "# Keys of the station {name} in the laboratory {laboratory}: whoever has this file is a member."
    ));
    write_head(&mut write, &laboratory, &file.authority);
    write(format_args!("\n[station]\nname = {name}\nsigning = \"{}\"", *secret(&station.seed)));
    write(format_args!("exchange = \"{}\"", *secret(&station.exchange)));
    write(format_args!("certificate = \"{}\"", Base64::encode_string(&station.certificate.to_bytes())));
    if let Some(ServiceAt { address, exchange }) = &file.service {
        let exchange = public(exchange);
        write(format_args!("\n[service]\naddress = \"{address}\"\nexchange = \"{exchange}\""));
    }
    file.secrets.iter().for_each(|one| write_secret(&mut write, one));
    for peer in &file.peers {
        write(format_args!("\n[[peer]]\n{}", station_entries(&peer.name, &peer.exchange)));
    }
    text
}

/// Writes what the files of stations and services begin with.
fn write_head(write: &mut impl FnMut(core::fmt::Arguments<'_>), laboratory: &str, authority: &PublicKey) {
    write(format_args!("# Written by `tallycast keys`. For its owner alone: chmod 600"));
    let authority = public(authority);
    write(format_args!("format = {FORMAT}\nlaboratory = {laboratory}\nauthority = \"{authority}\""));
}

fn write_secret(write: &mut impl FnMut(core::fmt::Arguments<'_>), one: &GroupSecret) {
    let (token, suite, from) = (one.token, one.suite.name(), time(one.from));
    write(format_args!("\n[[secret]]\ntoken = \"{token}\"\nsuite = \"{suite}\"\nfrom = {from}"));
    if let Some(until) = one.until {
        write(format_args!("until = {}", time(until)));
    }
    write(format_args!("value = \"{}\"", *secret(&one.secret)));
}

/// Writes the file of a key service.
pub(crate) fn service_file(file: &ServiceFile) -> Zeroizing<String> {
    let ServiceFile { laboratory, authority, address, exchange, members, removed, schedule } = file;
    let lists_bytes = SECRET_TEXT_BYTES * schedule.secrets().len()
        + PEER_TEXT_BYTES * members.len()
        + (PEER_TEXT_BYTES + 64) * removed.len();
    let mut text = Zeroizing::new(String::with_capacity(HEAD_BYTES + lists_bytes));
    let laboratory = quoted(laboratory);
    let mut write =
        |line: core::fmt::Arguments<'_>| writeln!(text, "{line}").expect("a string takes all text");
    write(format_args!(
        "# Key service of the laboratory {laboratory}: whoever has this file reads and forges its streams."
    ));
    write_head(&mut write, &laboratory, authority);
    write(format_args!("\n[service]\naddress = \"{address}\"\nexchange = \"{}\"", *secret(exchange)));
    let periods = schedule.periods();
    let (lifetime, kept) = (periods.lifetime().as_millis(), periods.kept().as_millis());
    let suite = schedule.suite().name();
    write(format_args!("suite = \"{suite}\"\nlifetime_ms = {lifetime}\nkept_ms = {kept}"));
    for Member { name, exchange } in members {
        write(format_args!("\n[[member]]\n{}", station_entries(name, exchange)));
    }
    for Removed { member: Member { name, exchange }, at } in removed {
        write(format_args!("\n[[removed]]\n{}\nat = {}", station_entries(name, exchange), time(*at)));
    }
    schedule.secrets().iter().for_each(|one| write_secret(&mut write, one));
    text
}

/// Writes an authority's file.
pub(super) fn authority_file(file: &AuthorityFile) -> Zeroizing<String> {
    let mut text = Zeroizing::new(String::with_capacity(HEAD_BYTES));
    let laboratory = quoted(&file.laboratory);
    let mut write =
        |line: core::fmt::Arguments<'_>| writeln!(text, "{line}").expect("a string takes all text");
    write(format_args!(
        "# Authority of the laboratory {laboratory}: whoever has this file can certify stations."
    ));
    write(format_args!("# Written by `tallycast keys`. For its owner alone, away from stations: chmod 600"));
    write(format_args!("format = {FORMAT}\nlaboratory = {laboratory}"));
    write(format_args!("\n[authority]\nsigning = \"{}\"", *secret(&file.seed)));
    text
}

/// Returns the entries of a station and the public key of its connections.
fn station_entries(name: &str, exchange: &PublicKey) -> String {
    format!("name = {}\nexchange = \"{}\"", quoted(name), public(exchange))
}

/// Returns a name as a string of TOML.
fn quoted(name: &str) -> String {
    toml::Value::from(name).to_string()
}

fn public(key: &PublicKey) -> String {
    Base64::encode_string(&key.0)
}

fn secret(secret: &Secret) -> Zeroizing<String> {
    let mut digits = Zeroizing::new([0; ENCODED_BYTES]);
    let text = Base64::encode(secret.reveal(), &mut digits[..]).expect("32 bytes have 44 digits");
    let mut copy = Zeroizing::new(String::with_capacity(ENCODED_BYTES));
    copy.push_str(text);
    copy
}

fn time(wall: WallTime) -> jiff::Timestamp {
    let nanos = i128::from(wall.as_nanos());
    jiff::Timestamp::from_nanosecond(nanos).expect("64-bit nanoseconds end centuries before this calendar")
}
