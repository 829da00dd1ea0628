//! Verification of an app's log, and of its signed head by the laboratory's public key.

use std::path::Path;

use ::steer::{HEAD_SUBJECT, Head, Log, SignedHead};
use keys::{Certificate, PublicKey, SIGNATURE_BYTES, Signature};
use sample::StreamName;

use super::SteeringError;
use super::log_file::{head_path, segments};

/// A log of which every record follows from those before it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifiedLog {
    /// The log.
    pub log: Log,
    /// Number of records up to the signed head, and the station that signed it; none if there is no signed head, or no
    /// authority was given.
    pub signed: Option<(u64, String)>,
}

/// Verifies a log from the first of its segments on, with `authority` also the signed head beside it: then a cut-off end shows, too.
///
/// # Errors
/// [`SteeringError::LogFile`], [`SteeringError::Log`]; [`SteeringError::Head`] if the signed head is missing or forged.
pub fn verify_log(
    app: &StreamName,
    path: &Path,
    authority: Option<&PublicKey>,
) -> Result<VerifiedLog, SteeringError> {
    let segments = read_log(path)?;
    let damaged = |error| SteeringError::Log { path: path.to_owned(), error };
    let Some(authority) = authority else {
        let log = Log::verify(app, &segments, None, |_, _| false).map_err(damaged)?;
        return Ok(VerifiedLog { log, signed: None });
    };
    let path = head_path(path);
    let wrong = |error: String| SteeringError::Head { path: path.clone(), error };
    let head = std::fs::read(&path).map_err(|error| wrong(error.to_string()))?;
    let (signed, certificate) = read_head(&head).ok_or_else(|| wrong("it is damaged".to_owned()))?;
    let has_signed = |message: &[u8], signature: &[u8]| {
        signature.try_into().is_ok_and(|signature| {
            certificate.signing.has_signed(HEAD_SUBJECT, message, &Signature(signature))
        })
    };
    let log = Log::verify(app, &segments, Some(&signed), has_signed).map_err(damaged)?;
    // The certificate was valid when the head was signed, which was when its last record was appended.
    let last =
        usize::try_from(signed.head.count).ok().and_then(|count| log.entries.get(count.checked_sub(1)?));
    let time = last.ok_or_else(|| wrong("it is that of an empty log".to_owned()))?.time;
    certificate.check(authority, time).map_err(|error| wrong(error.to_string()))?;
    Ok(VerifiedLog { log, signed: Some((signed.head.count, certificate.name)) })
}

/// Reads the segments of a log, the oldest first.
///
/// # Errors
/// [`SteeringError::LogFile`].
pub fn read_log(path: &Path) -> Result<Vec<Vec<u8>>, SteeringError> {
    let failed = |path: &Path, error| SteeringError::LogFile { path: path.to_owned(), error };
    let paths = segments(path).map_err(|error| failed(path, error))?;
    paths.iter().map(|path| std::fs::read(path).map_err(|error| failed(path, error))).collect()
}

/// Returns the number of records of the signed head beside a log, if there is one and its station signed it. That the
/// laboratory certified the station is not checked: it is this one.
pub(super) fn signed_count(log: &Path) -> Option<u64> {
    let (signed, certificate) = read_head(&std::fs::read(head_path(log)).ok()?)?;
    let signature = Signature(signed.signature.as_slice().try_into().ok()?);
    let message = signed.head.signed_bytes();
    certificate.signing.has_signed(HEAD_SUBJECT, &message, &signature).then_some(signed.head.count)
}

/// Reads the number of records, the digest, the signature, and the certificate of the station that signed.
fn read_head(bytes: &[u8]) -> Option<(SignedHead, Certificate)> {
    let (count, rest) = bytes.split_first_chunk()?;
    let (digest, rest) = rest.split_first_chunk()?;
    let (signature, rest) = rest.split_first_chunk::<SIGNATURE_BYTES>()?;
    let head = Head { count: u64::from_le_bytes(*count), digest: *digest };
    Some((SignedHead { head, signature: signature.to_vec() }, Certificate::from_bytes(rest).ok()?))
}
