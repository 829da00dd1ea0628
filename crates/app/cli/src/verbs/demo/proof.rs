//! Check of a secured demo's archive: what its publishers signed, compared with what its recorder stored.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use archive::{Archive, Proof, RunName, Signatory};
use serde_json::{Value, json};

use super::children::Line;
use crate::messages::print_line;

/// Verdicts about the recordings of a demo.
#[derive(Default)]
pub(super) struct Proofs {
    streams: BTreeSet<String>,
    sum: Proof,
    complaints: Vec<String>,
}

impl Proofs {
    /// Judges the recordings of all streams whose publishers printed totals; what the monitor server derives is not
    /// signed.
    pub(super) fn of(
        archive: &Path,
        run: &RunName,
        signatory: &Signatory,
        members: &[Line],
    ) -> anyhow::Result<Self> {
        let published: BTreeSet<&str> = members
            .iter()
            .filter(|line| line.value["event"] == "totals")
            .filter_map(|line| line.value["stream"].as_str())
            .collect();
        let archive = Archive::open(archive)?;
        let mut proofs = Self::default();
        for entry in archive.streams(run)? {
            if !published.contains(entry.name.as_str()) {
                continue;
            }
            for recording in &entry.epochs {
                proofs.add(entry.name.as_str(), archive.prove(recording, signatory, &mut |_| {})?);
            }
        }
        Ok(proofs)
    }

    fn add(&mut self, stream: &str, proof: Proof) {
        self.streams.insert(stream.to_owned());
        if proof.contradicted > 0 {
            self.complaints.push(format!(
                "the recording of {stream} contradicts what was signed, in {} intervals",
                proof.contradicted
            ));
        }
        self.complaints
            .extend(proof.faults.iter().map(|fault| format!("statements about {stream}: {fault}")));
        let sum = &mut self.sum;
        let sums = [
            (&mut sum.statements, proof.statements),
            (&mut sum.refused, proof.refused),
            (&mut sum.proven, proof.proven),
            (&mut sum.incomplete, proof.incomplete),
            (&mut sum.contradicted, proof.contradicted),
            (&mut sum.unsigned, proof.unsigned),
        ];
        sums.into_iter().for_each(|(sum, count)| *sum += count);
    }

    fn complaints(&self) -> Vec<String> {
        let mut complaints = self.complaints.clone();
        if self.sum.proven == 0 {
            complaints.push("nothing in the archive is proven\nlet it run longer: --duration 20s".to_owned());
        }
        complaints
    }

    /// Prints what was found; returns whether all is well.
    pub(super) fn print(&self, as_json: bool) -> std::io::Result<bool> {
        let complaints = self.complaints();
        if as_json {
            print_line(&self.object(&complaints))?;
        } else {
            writeln!(std::io::stdout(), "\n{}", self.text())?;
        }
        complaints.iter().for_each(|complaint| eprintln!("{complaint}"));
        Ok(complaints.is_empty())
    }

    fn object(&self, complaints: &[String]) -> Value {
        let Proof { statements, refused, proven, incomplete, contradicted, unsigned, .. } = self.sum;
        json!({
            "event": "proof",
            "streams": self.streams,
            "statements": statements,
            "refused": refused,
            "proven": proven,
            "incomplete": incomplete,
            "contradicted": contradicted,
            "unsigned": unsigned,
            "complaints": complaints,
        })
    }

    fn text(&self) -> String {
        let Proof { statements, proven, incomplete, contradicted, unsigned, .. } = self.sum;
        let streams = self.streams.len();
        format!(
            "proof      {proven} intervals of {streams} streams proven, {incomplete} incomplete, {contradicted} \
             contradicted, {unsigned} unsigned, by {statements} statements"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(proofs: &[Proof]) -> Vec<String> {
        let mut all = Proofs::default();
        proofs.iter().for_each(|proof| all.add("a", proof.clone()));
        all.complaints()
    }

    #[test]
    fn a_proven_archive_is_in_order_also_where_samples_were_lost() {
        let lossy = Proof { proven: 1, incomplete: 3, unsigned: 1, ..Proof::default() };
        assert_eq!(complaints(&[Proof::default(), lossy]), [""; 0]);
    }

    #[test]
    fn what_is_contradicted_or_forged_and_an_archive_without_proof_is_complained_of() {
        let contradicted = Proof { proven: 1, contradicted: 2, ..Proof::default() };
        let said = complaints(&[contradicted]);
        assert_eq!(said, ["the recording of a contradicts what was signed, in 2 intervals"]);
        let forged = Proof { proven: 1, faults: vec!["statement 1: forged".to_owned()], ..Proof::default() };
        assert_eq!(complaints(&[forged]), ["statements about a: statement 1: forged"]);
        let said = complaints(&[Proof { incomplete: 1, ..Proof::default() }]);
        assert!(said[0].starts_with("nothing in the archive is proven\n"), "{said:?}");
    }
}
