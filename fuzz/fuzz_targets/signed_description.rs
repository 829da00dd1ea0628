//! Any bytes as a certificate, and a signed description changed anywhere: what is read is written again alike, and only the
//! description that a station signed is believed, for its own epoch and salt.
#![no_main]

use fuzz::secured::{BEGIN, OURS, description, epoch};
use fuzz::spoil::Spoil;
use keys::{Certificate, Salt};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use units::Epoch;
use wire::{Description, Security};

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    certificate: &'a [u8],
    spoils: Vec<Spoil<'a>>,
    later_by: u8,
    salt: [u8; 16],
    /// UTC after the time of issue. Units: seconds.
    after: i32,
}

const SALT: Salt = Salt([3; 16]);

fuzz_target!(|input: Input<'_>| {
    if let Ok(certificate) = Certificate::from_bytes(input.certificate) {
        assert_eq!(certificate.to_bytes(), input.certificate);
        certificate.check(&OURS.membership.authority, BEGIN).expect_err("the authority did not sign it");
    }
    let mut signed = description();
    Security::sign(&signed, (epoch(), SALT), BEGIN, &OURS.membership.station).put(&mut signed);
    let mut bytes = signed.encode().expect("it fits");
    input.spoils.iter().take(4).for_each(|spoil| spoil.apply(&mut bytes));
    let Ok(read) = Description::decode(&bytes) else { return };
    let Some(security) = Security::of(&read) else { return };
    let mut again = read.clone();
    security.put(&mut again);
    assert_eq!(Security::of(&again).as_ref(), Some(&security));
    let other = Epoch { start_ns: epoch().start_ns + u64::from(input.later_by), ..epoch() };
    let wall = BEGIN.offset(i64::from(input.after) * 1_000_000_000);
    let is_believed = security.check(&read, (other, Salt(input.salt)), &OURS.membership.authority, wall).is_ok();
    let is_signed = read == signed && input.later_by == 0 && Salt(input.salt) == SALT;
    assert!(!is_believed || is_signed, "{read:?}");
    if read == signed {
        security
            .check(&read, (epoch(), SALT), &OURS.membership.authority, BEGIN)
            .expect("the station signed it");
    }
});
