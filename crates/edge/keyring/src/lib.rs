//! Files of keys on this host: read only if nobody else can read them, watched for changes, never shown.
//!
//! Start with [`load`], or with [`Keyring`] for a process that goes on when its file changes. The form of the files
//! is the business of the crate `keys`.

mod file;
mod random;
mod watched;

pub use file::{Change, KeyringError, create_authority, create_station, load, read_authority, read_station};
pub use random::{random_salt, random_secret, random_token};
pub use watched::{Ending, Keyring, Refresh};
