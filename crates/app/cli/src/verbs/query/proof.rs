//! Verdicts about a recording, as text and as lines of JSON: what its publisher signed, compared with what is stored.

use std::io::Write;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, anyhow};
use archive::{Archive, Proof, Recording, Ruling, Signatory, StreamEntry};
use keys::{AuthorityFile, KeyFile, MAX_KEY_FILE_BYTES, PublicKey};
use proof::{Unsigned, Verdict};
use serde_json::{Value, json};
use sys::private_file::{self, Privacy};
use tallycast::WallTime;
use zeroize::Zeroizing;

use crate::layout;
use crate::messages::print_line;
use crate::verbs::reliable::keys::forbid_core_dumps;

/// Prints the verdict of each interval with something in a range of time, proven ones in a row as one, and the sum of each epoch; returns whether
/// anything is not proven.
pub(super) fn show(
    archive: &Archive,
    entry: &StreamEntry,
    (authority, station): (&str, Option<String>),
    range: Range<WallTime>,
    as_json: bool,
) -> anyhow::Result<bool> {
    let signatory = Signatory { authority: public_key(authority)?, station };
    let mut is_whole = true;
    for recording in &entry.epochs {
        is_whole &= show_epoch((archive, recording), &signatory, range.clone(), as_json)?;
    }
    Ok(!is_whole)
}

fn show_epoch(
    (archive, recording): (&Archive, &Recording),
    signatory: &Signatory,
    range: Range<WallTime>,
    as_json: bool,
) -> anyhow::Result<bool> {
    let per_sample = u64::from(recording.description.schema.elements_per_sample());
    let mut printed = Ok(());
    let mut print = |ruling: &Ruling| {
        if printed.is_ok() {
            printed = if as_json {
                print_line(&ruling_json(recording, ruling)).map_err(Into::into)
            } else {
                print_text(ruling, per_sample)
            };
        }
    };
    let mut row: Option<Ruling> = None;
    let proof = archive.prove_within(recording, signatory, range, &mut |ruling| match &mut row {
        Some(row) if is_continued(row, &ruling) => {
            row.judged.intervals.end = ruling.judged.intervals.end;
            row.judged.positions.end = ruling.judged.positions.end;
            row.judged.elements += ruling.judged.elements;
        }
        _ => {
            if let Some(row) = row.replace(ruling) {
                print(&row);
            }
        }
    })?;
    row.iter().for_each(print);
    printed?;
    if as_json {
        print_line(&summary_json(recording, &proof))?;
    } else {
        for fault in &proof.faults {
            eprintln!("warning: {fault}");
        }
        let text = summary(recording, &proof);
        writeln!(std::io::stdout(), "{}", layout::wrapped(&text, layout::width()).join("\n"))?;
    }
    Ok(proof.is_whole())
}

/// Returns whether a verdict is the same as that of the intervals before: details make a line of its own.
fn is_continued(row: &Ruling, ruling: &Ruling) -> bool {
    let is_plain = matches!(ruling.judged.verdict, Verdict::Proven | Verdict::Unsigned(_));
    is_plain && row.judged.verdict == ruling.judged.verdict
}

fn print_text(ruling: &Ruling, per_sample: u64) -> anyhow::Result<()> {
    let Range { start, end } = &ruling.judged.intervals;
    let intervals = if end - start == 1 {
        format!("interval {start}")
    } else {
        format!("intervals {start} to {}", end - 1)
    };
    let head = format!("{:<13} ", ruling.judged.verdict.name());
    let samples = samples(&ruling.judged.positions, per_sample);
    let text = format!("{intervals}, {samples}{}", detail(ruling, per_sample));
    writeln!(std::io::stdout(), "{}", layout::hanging(&head, &text, layout::width()))?;
    Ok(())
}

fn samples(positions: &Range<u64>, per_sample: u64) -> String {
    let last = positions.end.div_ceil(per_sample).saturating_sub(1);
    format!("samples {} to {last}", positions.start / per_sample)
}

fn detail(ruling: &Ruling, per_sample: u64) -> String {
    match &ruling.judged.verdict {
        Verdict::Proven if ruling.judged.elements == 0 => ": the publisher numbered nothing".to_owned(),
        Verdict::Proven => String::new(),
        Verdict::Incomplete { missing, unproven } => {
            let gaps: Vec<String> = missing.iter().map(|gap| samples(&gap, per_sample)).collect();
            let reasons: Vec<String> =
                ruling.reasons.named().map(|(name, count)| format!("{name} {count}")).collect();
            let beside = match unproven.len() {
                0 => String::new(),
                count => format!("; {count} elements beside it are not proven"),
            };
            format!(" by {} ({}){beside}", gaps.join(", "), reasons.join(", "))
        }
        Verdict::Contradicted { positions, is_bridged } => {
            let places: Vec<String> = positions.iter().map(|range| samples(&range, per_sample)).collect();
            let whole = "its statement is missing; at least one interval up to the next statement differs";
            if *is_bridged { format!(": {whole}") } else { format!(": {} differ", places.join(", ")) }
        }
        Verdict::Unsigned(Unsigned::NotStated) => ": no statement reaches it".to_owned(),
        Verdict::Unsigned(Unsigned::StatementLost) => {
            ": its statement is missing, and so are samples, so that the next one does not prove it"
                .to_owned()
        }
    }
}

fn summary(recording: &Recording, proof: &Proof) -> String {
    let Proof { proven, incomplete, contradicted, unsigned, statements, refused, .. } = proof;
    let epoch = recording.description.epoch;
    let Some(station) = &proof.station else {
        return format!(
            "epoch {epoch}: nothing is proven; the recording has no valid statement, {refused} were refused"
        );
    };
    let end = if proof.is_end_stated { "its end is stated" } else { "no statement tells where it ended" };
    format!(
        "epoch {epoch}: {proven} intervals proven, {incomplete} incomplete, {contradicted} contradicted, {unsigned} \
         unsigned; {statements} statements of station {station}, {refused} refused; {end}"
    )
}

fn ruling_json(recording: &Recording, ruling: &Ruling) -> Value {
    let ranges = |set: &units::RangeSet| set.iter().map(|it| json!([it.start, it.end])).collect::<Vec<_>>();
    let judged = &ruling.judged;
    let mut object = json!({
        "kind": "interval",
        "epoch": recording.description.epoch.to_string(),
        "verdict": judged.verdict.name(),
        "intervals": [judged.intervals.start, judged.intervals.end],
        "positions": [judged.positions.start, judged.positions.end],
        "elements": judged.elements,
    });
    match &judged.verdict {
        Verdict::Proven => {}
        Verdict::Incomplete { missing, unproven } => {
            object["missing"] = json!(ranges(missing));
            object["unproven"] = json!(ranges(unproven));
            object["reasons"] = json!(ruling.reasons);
        }
        Verdict::Contradicted { positions, is_bridged } => {
            object["contradicted"] = json!(ranges(positions));
            object["bridged"] = json!(is_bridged);
        }
        Verdict::Unsigned(Unsigned::NotStated) => object["why"] = json!("not_stated"),
        Verdict::Unsigned(Unsigned::StatementLost) => object["why"] = json!("statement_lost"),
    }
    object
}

fn summary_json(recording: &Recording, proof: &Proof) -> Value {
    json!({
        "kind": "summary",
        "epoch": recording.description.epoch.to_string(),
        "whole": proof.is_whole(),
        "station": proof.station,
        "statements": proof.statements,
        "refused": proof.refused,
        "faults": proof.faults,
        "end_stated": proof.is_end_stated,
        "proven": proof.proven,
        "incomplete": proof.incomplete,
        "contradicted": proof.contradicted,
        "unsigned": proof.unsigned,
    })
}

/// Reads a laboratory's public key: its digits, a file that has nothing else, or a file of keys, whether a station's or
/// that of the authority itself.
pub(crate) fn public_key(text: &str) -> anyhow::Result<PublicKey> {
    if let Ok(key) = text.parse() {
        return Ok(key);
    }
    // Files of keys have secrets.
    forbid_core_dumps();
    let content = std::fs::read(text).with_context(|| format!("cannot read the public key {text}"))?;
    let content = Zeroizing::new(content);
    let content = core::str::from_utf8(&content).unwrap_or_default();
    if let Ok(key) = content.trim().parse() {
        return Ok(key);
    }
    let key = AuthorityFile::parse(content).map(|file| file.authority().public());
    let key = key.or_else(|_| KeyFile::parse(content).map(|file| file.authority())).map_err(|_| {
        anyhow!(
            "{text} has no public key of a laboratory\n\
             name a file of keys (STATION.keys, LABORATORY.authority), or one with the 64 hexadecimal digits alone"
        )
    })?;
    // One that others can read is refused here as everywhere.
    private_file::read(Path::new(text), Privacy::Secret, MAX_KEY_FILE_BYTES)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use keys::{GroupSecret, StationKeys, Suite};

    #[test]
    fn a_public_key_is_its_digits_or_a_file_that_has_them() {
        let digits = "0a".repeat(32);
        assert_eq!(public_key(&digits).unwrap(), PublicKey([10; 32]));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("laboratory.pub");
        std::fs::write(&path, format!("{digits}\n")).unwrap();
        assert_eq!(public_key(path.to_str().unwrap()).unwrap(), PublicKey([10; 32]));
        std::fs::write(&path, format!("secret = {digits}\n")).unwrap();
        let refused = public_key(path.to_str().unwrap()).unwrap_err().to_string();
        assert!(refused.contains("has no public key of a laboratory\nname a file of keys"), "{refused}");
        assert!(!refused.contains("0a0a"), "nothing of the content is told");
        let authority = AuthorityFile::new("lab", keyring::random_secret()).unwrap();
        let seeds = [keyring::random_secret(), keyring::random_secret()];
        let always = WallTime::from_nanos(0)..WallTime::from_nanos(i64::MAX);
        let station = StationKeys::new(&authority, "daq", seeds, always).unwrap();
        let from = WallTime::from_nanos(0);
        let secret =
            GroupSecret::new(keyring::random_token(), Suite::default(), keyring::random_secret(), from);
        let station = KeyFile::new(&authority, station, secret).unwrap();
        for text in [station.to_text(), authority.to_text()] {
            std::fs::write(&path, &*text).unwrap();
            set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
            let refused = public_key(path.to_str().unwrap()).unwrap_err().to_string();
            assert!(refused.contains("others may read it") && refused.contains("\nchmod 600 "), "{refused}");
            set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            assert_eq!(public_key(path.to_str().unwrap()).unwrap(), authority.authority().public());
        }
        let absent = public_key("no-such-file").unwrap_err().to_string();
        assert_eq!(absent, "cannot read the public key no-such-file");
    }
}
