//! Proof of a stream: what its publisher signed, compared with what a reader or an archive has.
//!
//! The publisher digests its numbered samples interval by interval ([`Digester`]) and signs lists of the digests
//! ([`Author`], [`Statement`]); each list continues a chain, so that a lost list is bridged by the next one. Whoever
//! has the samples, the statements ([`Claims`]) and the laboratory's public key learns of every interval whether it
//! is proven, incomplete or contradicted ([`Judge`]), years later and without the publisher.
//!
//! Shape and bytes: `docs/protocol/proof.md`; why leaves: `docs/design/0006-proof.md`.

mod author;
mod claims;
mod digest;
mod digester;
mod grid;
mod judge;
#[cfg(test)]
mod scene;
mod statement;

pub use author::Author;
pub use claims::{Claims, Refused};
pub use digest::{Digest, DigestError, Subject};
pub use digester::{Digester, Interval};
pub use grid::{Grid, LEAF_BYTES, MAX_LEAVES};
pub use judge::{Judge, Judged, Unsigned, Verdict};
pub use statement::{Entry, FIXED_BYTES, MAX_ENTRIES, MAX_STATEMENT_BYTES, Statement, StatementError};
