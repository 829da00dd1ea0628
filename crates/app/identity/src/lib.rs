//! Identities: which principal a password, a token or a session proves.
//!
//! Start with [`Identity`], which a service asks, and [`Folder`], which the command edits. What a principal may do is
//! decided by the crate `access`.

mod attempts;
mod folder;
mod identity;
mod password;
mod secret;
mod sessions;
mod tokens;
mod users;

pub use attempts::Attempts;
pub use folder::{Content, Folder, FolderError};
pub use identity::{Identity, Refresh, SignInError};
pub use password::{
    Busy, Cost, MAX_PASSWORD_BYTES, MAX_WAITING, MIN_PASSWORD_CHARS, PasswordError, PasswordHash,
};
pub use secret::{Digest, InvalidDigest, Secret};
pub use sessions::{MAX_SESSION_IDLE, SessionId, UserSessions};
pub use sys::private_file::FileError;
pub use tokens::{Expiry, Token, TokenError, Tokens};
pub use users::{User, UserError, Users};
