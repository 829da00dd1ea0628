//! The stream protocol from outside: what is sent is what is read, and nothing else is believed.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod any;
mod description;
mod extensions;
mod hostile;
mod round_trip;
