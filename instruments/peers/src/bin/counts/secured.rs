//! Keys of a counted stream, and the cipher alone.

use std::sync::Arc;

use cast::send::SenderSecurity;
use keys::{
    Authority, Certificate, DatagramKey, GroupKey, GroupSecret, KeySet, Membership, PublicKey, Purpose,
    SIGNATURE_BYTES, Salt, Secret, Signature, SigningKey, Station, Suite, TAG_BYTES, Token,
};
use units::WallTime;

use crate::FRAME_BYTES;

/// UTC when a stream begins.
pub(crate) const WALL: WallTime = WallTime::from_nanos(1_800_000_000_000_000_000);
/// Time around it in which the station's certificate is valid. Units: nanoseconds.
const VALID_NS: i64 = 3_600_000_000_000;
/// Size of the header of a secured data datagram, which is authenticated. Units: bytes.
const HEADER_BYTES: usize = wire::DATA_HEADER_BYTES + wire::SECURED_DATA_BYTES - TAG_BYTES;

/// Returns a member of a laboratory with one secret. Nothing is random here: counts have to repeat.
pub(crate) fn membership(suite: Suite) -> Arc<Membership> {
    let authority = Authority::new(SigningKey::from_seed(&[1; 32].into()));
    let signing = SigningKey::from_seed(&[2; 32].into());
    let certificate = authority.certify(Certificate {
        name: "bench".to_owned(),
        signing: signing.public(),
        exchange: PublicKey([0; 32]),
        not_before: WALL.offset(-VALID_NS),
        not_after: WALL.offset(VALID_NS),
        signature: Signature([0; SIGNATURE_BYTES]),
    });
    Arc::new(Membership {
        laboratory: "bench".to_owned(),
        authority: authority.public(),
        keys: KeySet::new([secret(suite)]),
        station: Arc::new(Station::new(certificate, signing).expect("a certificate of its own key")),
        exchange: Secret::new([3; 32].into()),
    })
}

/// Returns what a sender needs of a member.
pub(crate) fn security(membership: &Arc<Membership>) -> SenderSecurity {
    SenderSecurity { membership: Arc::clone(membership), salt: Salt([5; 16]), wall: WALL }
}

/// Encrypts the payload of full data datagrams.
pub(crate) fn seal(suite: Suite, count: usize) {
    let (key, header, mut sealed) = (key(suite), [7; HEADER_BYTES], [7; FRAME_BYTES - HEADER_BYTES]);
    for number in 0..count as u64 {
        seal_one(&key, number, &header, &mut sealed);
    }
    std::hint::black_box(sealed);
}

/// Encrypts the payload of full data datagrams, and opens each.
pub(crate) fn seal_and_open(suite: Suite, count: usize) {
    let (key, header, mut sealed) = (key(suite), [7; HEADER_BYTES], [7; FRAME_BYTES - HEADER_BYTES]);
    for number in 0..count as u64 {
        seal_one(&key, number, &header, &mut sealed);
        let payload = key.open(number, &header, &mut sealed).expect("sealed a moment ago");
        std::hint::black_box(payload);
    }
}

fn seal_one(key: &DatagramKey, number: u64, header: &[u8], sealed: &mut [u8]) {
    let (payload, tag) = sealed.split_at_mut(sealed.len() - TAG_BYTES);
    tag.copy_from_slice(&key.seal(number, header, payload));
}

fn key(suite: Suite) -> DatagramKey {
    GroupKey::new(&secret(suite), Salt([5; 16])).derive(Purpose::Unnumbered)
}

fn secret(suite: Suite) -> GroupSecret {
    GroupSecret::new(Token(1), suite, Secret::new([4; 32].into()), WALL.offset(-VALID_NS))
}
