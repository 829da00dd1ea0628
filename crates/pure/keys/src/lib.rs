//! Keys of secured streams: group secrets, the keys derived from them, and the identity of stations.
//!
//! A laboratory shares group [`Secret`]s; whoever has them can read and write its streams at level `group`. Keys for
//! single epochs and processes are derived with [`GroupKey`], and [`DatagramKey`] encrypts and authenticates one
//! datagram in place. A [`Station`] signs descriptions with a key that the laboratory's authority certified.
//!
//! Nothing here draws random bytes, reads files or knows the time: callers pass all of them. Start with [`KeySet`],
//! for secrets from a key service with [`service`]. The layout of datagrams belongs to the crate `wire`.

mod aead;
mod derive;
mod exchange;
mod key_file;
mod key_set;
mod membership;
mod replay_window;
mod secret;
pub mod service;
mod station;

pub use aead::{DatagramKey, OpenError, TAG_BYTES};
pub use derive::{GroupKey, Purpose, Salt, Stretch};
pub use exchange::exchange_public;
pub use key_file::{
    AuthorityFile, KeyFile, KeyFileError, MAX_KEY_FILE_BYTES, Peer, SecretError, ServiceAt, StationKeys,
};
pub use key_set::{GroupSecret, KeySet, MAX_SECRETS};
pub use membership::Membership;
pub use replay_window::ReplayWindow;
pub use secret::{InvalidToken, SECRET_BYTES, Secret, Suite, Token};
pub use station::{
    Authority, CERTIFICATE_BYTES, Certificate, CertificateError, InvalidPublicKey, MAX_NAME_BYTES, PublicKey,
    SIGNATURE_BYTES, Signature, SigningKey, Station,
};
