//! Files of keys on this host: read only if nobody else can read them, watched for changes, never shown.
//!
//! Start with [`load`], or with [`Keyring`] for a process that goes on when its file changes, or asks a key service; that
//! is [`KeyService`]. The form of the files
//! is the business of the crate `keys`.

mod asking;
mod file;
mod news;
mod peer_list;
mod port;
mod random;
mod service;
mod watched;

pub use asking::ServiceState;
pub use file::{Change, KeyringError, create_authority, create_station, load, read_authority, read_station};
pub use news::News;
pub use peer_list::PeerList;
pub use random::{random_salt, random_secret, random_token};
pub use service::{KeyService, ServiceEvent, change_service, create_service, draw, read_service};
pub use watched::{Ending, Keyring, Refresh};
