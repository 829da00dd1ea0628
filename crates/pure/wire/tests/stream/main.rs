//! The stream protocol from outside: every datagram decodes to what was encoded, and nothing else is accepted.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod any;
mod description;
mod extensions;
mod hostile;
mod round_trip;
