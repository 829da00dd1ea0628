//! Files of keys: round trips, every check, and that no error quotes a secret.

use base64ct::{Base64, Encoding};
use proptest::prelude::*;

use super::*;
use crate::Suite;

const DAY: i64 = 86_400_000_000_000;

fn secret(first: u8) -> Secret {
    Secret::new(Zeroizing::new([first; 32]))
}

fn group_secret(token: u32, from: i64) -> GroupSecret {
    let first = u8::try_from(token % 251).unwrap();
    GroupSecret::new(Token(token), Suite::default(), secret(first), WallTime::from_nanos(from))
}

fn authority() -> AuthorityFile {
    AuthorityFile::new("lab \"one\"", secret(0xa1)).unwrap()
}

fn station(name: &str) -> StationKeys {
    let validity = WallTime::from_nanos(0)..WallTime::from_nanos(DAY);
    StationKeys::new(&authority(), name, [secret(0xb2), secret(0xc3)], validity).unwrap()
}

fn file() -> KeyFile {
    let mut file = KeyFile::new(&authority(), station("daq-1"), group_secret(0x1a2b_3c4d, 0)).unwrap();
    file.add_secret(group_secret(2, DAY)).unwrap();
    file.peers.push(Peer { name: "daq-2".to_owned(), exchange: PublicKey([9; 32]) });
    file
}

/// Returns the file's text with one part replaced, and what is then said.
fn told(part: &str, by: &str) -> String {
    let text = file().to_text();
    assert!(text.contains(part), "{part} is not in the text");
    KeyFile::parse(&text.replacen(part, by, 1)).unwrap_err().to_string()
}

#[test]
fn a_file_reads_what_it_writes() {
    let text = file().to_text();
    assert_eq!(KeyFile::parse(&text).unwrap(), file());
    let text = authority().to_text();
    assert_eq!(AuthorityFile::parse(&text).unwrap(), authority());
}

#[test]
fn the_text_keeps_its_form() {
    let expected = "\
# Keys of the station \"daq-1\" in the laboratory 'lab \"one\"': whoever has this file is a member.
# Written by `tallycast keys`. For its owner alone: chmod 600
format = 1
laboratory = 'lab \"one\"'
authority = \"AUTHORITY\"

[station]
name = \"daq-1\"
signing = \"srKysrKysrKysrKysrKysrKysrKysrKysrKysrKysrI=\"
exchange = \"w8PDw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8PDw8M=\"
certificate = \"CERTIFICATE\"

[[secret]]
token = \"1a2b3c4d\"
suite = \"aes-256-gcm\"
from = 1970-01-01T00:00:00Z
value = \"\
";
    let text = file().to_text();
    let of = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        line.split('"').nth(1).unwrap().to_owned()
    };
    let (authority, certificate) = (of("authority"), of("certificate"));
    let text = text.replace(&authority, "AUTHORITY").replace(&certificate, "CERTIFICATE");
    assert!(text.starts_with(expected), "{text}");
}

#[test]
fn a_text_has_room_from_the_start_also_for_the_longest_names() {
    let name = "\u{fffd}".repeat(21);
    let mut file = KeyFile::new(&authority(), station(&name), group_secret(1, 0)).unwrap();
    for index in 2..=MAX_SECRETS {
        file.add_secret(group_secret(u32::try_from(index).unwrap(), i64::MAX)).unwrap();
    }
    let peer = Peer { name: "\"'".repeat(32), exchange: PublicKey([1; 32]) };
    file.peers = vec![peer; 100];
    file.laboratory = "\\\"'".repeat(21);
    let text = file.to_text();
    let lists_bytes = 256 * MAX_SECRETS + (128 + 6 * 64) * 100;
    assert!(text.len() <= 2_048 + 24 * 64 + lists_bytes, "{}", text.len());
    assert_eq!(KeyFile::parse(&text).unwrap(), file);
}

#[test]
fn a_file_gives_a_membership_while_its_certificate_is_valid() {
    let at = |nanos| file().membership(WallTime::from_nanos(nanos));
    let membership = at(0).unwrap();
    assert_eq!((membership.laboratory.as_str(), membership.authority), ("lab \"one\"", file().authority()));
    assert_eq!(membership.keys.sending(WallTime::from_nanos(0)).unwrap().token, Token(0x1a2b_3c4d));
    assert_eq!(membership.station.certificate().name, "daq-1");
    assert_eq!(membership.exchange, secret(0xc3));
    assert!(at(DAY - 1).is_ok());
    assert!(matches!(at(DAY), Err(CertificateError::Expired { .. })));
    assert!(matches!(at(-1), Err(CertificateError::TooEarly { .. })));
}

#[test]
fn errors_name_the_line_and_what_to_do() {
    let text = file().to_text();
    let line_of = |part: &str| text.lines().position(|line| line.contains(part)).unwrap() + 1;
    let line = |part: &str| format!("line {}: ", line_of(part));
    assert!(told("suite = \"aes-256-gcm\"", "suite = \"aes\"").starts_with(&line("suite")));
    assert!(told("token = \"1a2b3c4d\"", "token = 7").contains("8 hexadecimal digits"));
    assert!(told("from = 1970-01-01T00:00:00Z", "from = 1970-01-01").contains("a time in UTC"));
    assert!(told("from = 1970-01-01T00:00:00Z", "from = 9999-01-01T00:00:00Z").contains("a time in UTC"));
    assert!(told("signing = \"sr", "signing = \"r").contains("32 bytes in Base64"));
    assert!(told("name = \"daq-1\"", "name = \"daq-7\"").contains("the name in the certificate"));
    assert!(told("exchange = \"w8", "exchange = \"08").starts_with(&line("exchange = \"w8")));
    assert!(told("signing = \"sr", "signing = \"tr").contains("belongs to another private key"));
    assert!(told("authority = \"", "authority = \"A").contains("32 bytes in Base64"));
    assert!(told("token = \"00000002\"", "token = \"1a2b3c4d\"").contains("given twice"));
    assert!(told("[station]", "[station]\nshape = 1").contains("no such entry"));
    assert!(told("laboratory = 'lab", "laboratry = 'lab").contains("`laboratory` is missing"));
    assert!(told("format = 1", "format = 2").contains("of another format"));
    assert!(told("[[peer]]", "[peer]").contains("double brackets"));
    assert!(told("[station]", "[station").starts_with(&line("[station]")));
    assert!(
        told("laboratory = 'lab \"one\"'", "laboratory = \"a\\nb\"").contains("without control characters")
    );
}

#[test]
fn a_certificate_of_another_authority_is_refused() {
    let other = AuthorityFile::new("lab", secret(1)).unwrap();
    let refused = KeyFile::new(&other, station("daq-1"), group_secret(1, 0)).unwrap_err();
    assert_eq!(refused, CertificateError::Authority("daq-1".to_owned()));
    let text = file().to_text();
    let encoded = |key: PublicKey| Base64::encode_string(&key.0);
    let changed = text.replace(&encoded(file().authority()), &encoded(other.authority().public()));
    let told = KeyFile::parse(&changed).unwrap_err().to_string();
    assert!(told.contains("not signed by the laboratory's authority"), "{told}");
}

#[test]
fn the_two_kinds_of_files_are_not_taken_for_each_other() {
    assert_eq!(KeyFile::parse(&authority().to_text()), Err(KeyFileError::IsAuthority));
    assert_eq!(AuthorityFile::parse(&file().to_text()), Err(KeyFileError::IsStation));
}

#[test]
fn a_text_longer_than_any_file_of_keys_is_refused() {
    let mut text = file().to_text();
    let spaces = MAX_KEY_FILE_BYTES - text.len();
    text.push_str(&" ".repeat(spaces));
    assert!(KeyFile::parse(&text).is_ok());
    text.push(' ');
    assert_eq!(KeyFile::parse(&text), Err(KeyFileError::Long));
}

#[test]
fn secrets_are_added_within_their_limit_and_the_one_in_use_stays() {
    let mut file = file();
    let now = WallTime::from_nanos(0);
    assert_eq!(file.retire_secret(Token(9), now), Err(SecretError::Unknown(Token(9))));
    assert_eq!(file.add_secret(group_secret(2, 5)), Err(SecretError::Exists(Token(2))));
    for token in 3..=8 {
        file.add_secret(group_secret(token, i64::from(token))).unwrap();
    }
    assert_eq!(file.add_secret(group_secret(9, 0)), Err(SecretError::Full));
    assert!(KeyFile::parse(&file.to_text()).is_ok());
    let last = file.secrets.len();
    file.secrets.push(group_secret(9, DAY));
    assert_eq!(file.secrets.len(), last + 1);
    assert!(matches!(KeyFile::parse(&file.to_text()), Err(KeyFileError::TooManySecrets(_))));
    file.secrets.pop();
    let in_use = Token(0x1a2b_3c4d);
    assert_eq!(file.retire_secret(in_use, now), Err(SecretError::InUse(in_use)));
    file.retire_secret(in_use, WallTime::from_nanos(3)).unwrap();
    let froms: Vec<_> = file.secrets.iter().map(|secret| secret.from.as_nanos()).collect();
    assert_eq!(froms, [3, 4, 5, 6, 7, 8, DAY]);
}

#[test]
fn the_last_secret_is_not_removed() {
    let mut file = KeyFile::new(&authority(), station("daq-1"), group_secret(1, DAY)).unwrap();
    assert_eq!(file.retire_secret(Token(1), WallTime::from_nanos(0)), Err(SecretError::InUse(Token(1))));
}

#[test]
fn a_file_and_its_members_agree_on_the_secret_in_use_also_by_a_clock_that_is_behind() {
    let mut file = KeyFile::new(&authority(), station("daq-1"), group_secret(1, 10)).unwrap();
    file.add_secret(group_secret(2, 20)).unwrap();
    // Of two with one time the second.
    file.add_secret(group_secret(3, 20)).unwrap();
    for (wall, token) in [(9, 1), (10, 1), (19, 1), (20, 3), (99, 3)] {
        let wall = WallTime::from_nanos(wall);
        assert_eq!(file.sending(wall).unwrap().token, Token(token));
        assert_eq!(file.membership(wall).unwrap().keys.sending(wall), file.sending(wall));
    }
    let first = Token(1);
    assert_eq!(file.retire_secret(first, WallTime::from_nanos(9)), Err(SecretError::InUse(first)));
}

#[test]
fn a_station_of_a_key_service_has_no_secrets_in_its_file() {
    let service = ServiceAt { address: "192.0.2.7:7409".parse().unwrap(), exchange: PublicKey([5; 32]) };
    let mut file = KeyFile::with_service(&authority(), station("daq-1"), service.clone()).unwrap();
    let text = file.to_text();
    assert_eq!(KeyFile::parse(&text).unwrap(), file);
    assert_eq!((file.service(), file.sending(WallTime::from_nanos(0))), (Some(&service), None));
    assert!(file.membership(WallTime::from_nanos(0)).unwrap().keys.is_empty());
    assert_eq!(file.add_secret(group_secret(1, 0)), Err(SecretError::OfService));
    let secret = "\n[[secret]]\ntoken = \"00000001\"\n";
    let told = KeyFile::parse(&format!("{}{secret}", *text)).unwrap_err().to_string();
    assert!(told.contains("a station that asks a key service has no secrets"), "{told}");
    let other = file.for_station(station("daq-2")).unwrap();
    assert_eq!(other.service(), Some(&service));
}

#[test]
fn another_stations_file_has_the_same_secrets_and_peers() {
    let other = file().for_station(station("daq-9")).unwrap();
    assert_eq!((other.secrets(), other.peers()), (file().secrets(), file().peers()));
    assert_eq!(other.station().certificate().name, "daq-9");
}

#[test]
fn a_new_certificate_keeps_the_keys() {
    let later = WallTime::from_nanos(DAY)..WallTime::from_nanos(2 * DAY);
    let renewed = station("daq-1").certified(&authority(), later);
    assert_eq!(renewed.certificate().exchange, station("daq-1").certificate().exchange);
    let file = file().for_station(renewed).unwrap();
    assert!(file.membership(WallTime::from_nanos(DAY)).is_ok());
}

#[test]
fn nothing_secret_is_shown() {
    let shown = format!("{:?} {:?} {:?}", file(), authority(), file().membership(WallTime::from_nanos(0)));
    for digits in ["b2b2", "b2, b2", "178, 178", "195, 195", "161, 161", "srKy", "w8PD", "oaGh"] {
        assert!(!shown.contains(digits), "{digits}: {shown}");
    }
}

/// Returns the parts of 12 digits of all secrets of the file.
fn secret_parts() -> Vec<String> {
    let file = file();
    let secrets = file.secrets.iter().map(|secret| &secret.secret);
    let all = secrets.chain([&file.station.seed, &file.station.exchange]);
    let encoded = all.map(|secret| Base64::encode_string(secret.reveal()));
    encoded
        .flat_map(|text| (0..text.len() - 12).map(|at| text[at..at + 12].to_owned()).collect::<Vec<_>>())
        .collect()
}

proptest! {
    #[test]
    fn damaged_texts_are_refused_or_read_without_quoting_a_secret(
        at in 0_usize..2_000, len in 0_usize..40, by in "[\\n\"'\\[\\]=#a-zA-Z0-9+/ .]{0,12}"
    ) {
        let text = file().to_text();
        let start = at % text.len();
        let end = (start + len).min(text.len());
        let damaged = format!("{}{by}{}", &text[..start], &text[end..]);
        if let Err(error) = KeyFile::parse(&damaged) {
            let told = format!("{error} {error:?}");
            let quoted = secret_parts().into_iter().find(|part| told.contains(part.as_str()));
            prop_assert_eq!(quoted, None, "{}", told);
        }
        let _ = AuthorityFile::parse(&damaged);
    }

    #[test]
    fn any_text_is_refused_without_a_panic(text: String) {
        let _ = (KeyFile::parse(&text), AuthorityFile::parse(&text));
    }
}
