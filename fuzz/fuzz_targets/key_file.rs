//! Any text as a station's or an authority's file of keys: refused without quoting a secret, or a file that is written
//! as it was read and shows no secret.
//!
//! A fuzzer cannot guess keys, so most inputs are changes to valid files.
#![no_main]

use std::sync::LazyLock;

use fuzz::spoil::Spoil;
use keys::{AuthorityFile, GroupSecret, KeyFile, Secret, StationKeys, Suite, Token};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use units::WallTime;

/// Length of the parts of secrets that no message may have: shorter ones occur by chance. Units: digits of Base64.
const PART: usize = 12;

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    whole: Option<&'a [u8]>,
    is_authority: bool,
    spoils: Vec<Spoil<'a>>,
}

/// Valid texts, and the parts of their secrets.
struct Valid {
    station: String,
    authority: String,
    parts: Vec<String>,
}

static VALID: LazyLock<Valid> = LazyLock::new(|| {
    let [signing, own, exchange, one, two] = [11, 22, 33, 44, 55].map(secret);
    let authority = AuthorityFile::new("lab", signing).expect("a name");
    let validity = WallTime::from_nanos(0)..WallTime::from_nanos(1_000_000_000);
    let keys = StationKeys::new(&authority, "daq-1", [own, exchange], validity).expect("a name");
    let first = GroupSecret::new(Token(1), Suite::Aes256Gcm, one, WallTime::from_nanos(0));
    let next = GroupSecret::new(Token(2), Suite::ChaCha20Poly1305, two, WallTime::from_nanos(1_000_000_000));
    let mut file = KeyFile::new(&authority, keys, first).expect("the authority certified it");
    file.add_secret(next).expect("room for two");
    let (station, authority) = (file.to_text().to_string(), authority.to_text().to_string());
    let parts = parts(&station).chain(parts(&authority)).collect();
    Valid { station, authority, parts }
});

fuzz_target!(|input: Input<'_>| {
    let valid = if input.is_authority { &VALID.authority } else { &VALID.station };
    let mut text = input.whole.unwrap_or(valid.as_bytes()).to_vec();
    input.spoils.iter().take(4).for_each(|spoil| spoil.apply(&mut text));
    let Ok(text) = String::from_utf8(text) else { return };
    let told = match KeyFile::parse(&text) {
        Ok(file) => {
            assert_eq!(KeyFile::parse(&file.to_text()).as_ref(), Ok(&file));
            let from = file.station().certificate().not_before;
            if let Ok(membership) = file.membership(from) {
                assert_eq!(membership.keys.sending(from), file.sending(from));
            }
            format!("{file:?}")
        }
        Err(error) => format!("{error} {error:?}"),
    };
    let told_of_authority = match AuthorityFile::parse(&text) {
        Ok(file) => {
            assert_eq!(AuthorityFile::parse(&file.to_text()).as_ref(), Ok(&file));
            format!("{file:?}")
        }
        Err(error) => format!("{error} {error:?}"),
    };
    for told in [told, told_of_authority] {
        assert!(!VALID.parts.iter().any(|part| told.contains(part)), "{told}");
    }
});

fn secret(first: u8) -> Secret {
    Secret::new(core::array::from_fn(|index| first.wrapping_mul(index as u8 + 3)).into())
}

/// Returns the parts of the secrets that a text quotes.
fn parts(text: &str) -> impl Iterator<Item = String> + '_ {
    let is_secret = |line: &&str| ["signing", "exchange", "value"].iter().any(|name| line.starts_with(name));
    let secrets = text.lines().filter(is_secret).filter_map(|line| line.split('"').nth(1));
    secrets.flat_map(|secret| (0..secret.len() - PART).map(|at| secret[at..at + PART].to_owned()))
}
