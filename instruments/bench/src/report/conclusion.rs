//! Published conclusions, compared with the results here.

use std::fmt;

use probe::Contrast;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::text;

use super::document::write_hanging;
use super::table::{Columns, Table};

/// Share of a published grid that is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grid {
    /// A few points, in minutes.
    Short,
    /// All points, with runs as long as the published ones.
    Full,
}

/// One published conclusion, and the result here.
#[derive(Clone, PartialEq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conclusion {
    /// The published conclusion.
    pub source: String,
    /// The result here, or the reason why it cannot be judged.
    pub here: String,
    /// Agreement of the two.
    pub agreement: Agreement,
}

/// Agreement of a conclusion with the results here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// They agree.
    Agrees,
    /// They agree at some points, not at others.
    Partly,
    /// They differ.
    Differs,
    /// The points for it were not measured.
    NotMeasured,
}

impl Agreement {
    /// Returns the agreement as text.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Partly => "agrees in part",
            Self::Differs => "differs",
            Self::NotMeasured => "not measured",
        }
    }

    /// Returns the agreement of a claim that holds at `some` of `all` points.
    #[must_use]
    pub const fn of_share(some: usize, all: usize) -> Self {
        match (some, all) {
            (_, 0) => Self::NotMeasured,
            (0, _) => Self::Differs,
            (some, all) if some == all => Self::Agrees,
            _ => Self::Partly,
        }
    }
}

impl Conclusion {
    /// Compares a published conclusion with the result here.
    #[must_use]
    pub fn new(source: &str, here: &str, agreement: Agreement) -> Self {
        let here = if agreement == Agreement::NotMeasured { "not measured" } else { here };
        Self { source: source.to_owned(), here: here.to_owned(), agreement }
    }

    /// Returns a conclusion whose points were not measured.
    pub(crate) fn not_measured(source: &str) -> Self {
        Self::new(source, "", Agreement::NotMeasured)
    }

    /// Returns whether it was judged.
    #[must_use]
    pub(crate) fn is_judged(&self) -> bool {
        self.agreement != Agreement::NotMeasured
    }

    /// Withdraws a verdict with a reason; what was found stays in its text.
    pub(crate) fn withdrawn(&self, why: &str) -> Self {
        let Self { source, here, .. } = self;
        let found = if self.is_judged() { format!("; {here}") } else { String::new() };
        Self::not_judged(source, &format!("{why}{found}"))
    }

    /// Withdraws a verdict that stands over a noisy measurement: the same report calls it unreliable.
    pub(crate) fn unless(self, noise: &[String]) -> Self {
        if noise.is_empty() || !self.is_judged() {
            return self;
        }
        self.withdrawn(&format!("it was noisy while it was measured: {}", noise.join("; ")))
    }

    /// Names the noisy points that it leaves out.
    pub(crate) fn without_noisy(mut self, points: usize) -> Self {
        if points > 0 && self == Self::not_measured(&self.source) {
            return Self::not_judged(
                &self.source,
                &format!("without {} nothing is left to judge by", text::counted(points, "noisy point")),
            );
        }
        if points > 0 {
            self.here += &format!("; left out: {}", text::counted(points, "noisy point"));
        }
        self
    }

    /// Returns a conclusion that cannot be judged here, with the reason.
    #[must_use]
    pub fn not_judged(source: &str, why: &str) -> Self {
        let here = format!("cannot be judged here: {why}");
        Self { source: source.to_owned(), here, agreement: Agreement::NotMeasured }
    }
}

/// Comparisons of one kind, in each of which a document claims the same outcome: the first is more than the
/// second.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Comparisons {
    /// Number of comparisons with the claimed outcome.
    pub(crate) more: usize,
    /// Number of comparisons with the opposite outcome.
    pub(crate) less: usize,
    /// Number of comparisons that showed equality.
    pub(crate) alike: usize,
    /// Number of comparisons without result, since repeats spread over more than they differ by.
    pub(crate) unclear: usize,
}

impl Comparisons {
    /// Counts the outcomes.
    pub(crate) fn of(contrasts: impl IntoIterator<Item = Contrast>) -> Self {
        let mut it = Self::default();
        for contrast in contrasts {
            *match contrast {
                Contrast::More => &mut it.more,
                Contrast::Less => &mut it.less,
                Contrast::Alike => &mut it.alike,
                Contrast::Unclear => &mut it.unclear,
            } += 1;
        }
        it
    }

    /// Turns the claim into its opposite, that the first is not more: equality supports this one.
    pub(crate) const fn turned(self) -> Self {
        Self { more: self.less + self.alike, less: self.more, alike: 0, ..self }
    }

    /// Returns the number of comparisons that can be judged.
    pub(crate) const fn judged(&self) -> usize {
        self.more + self.less + self.alike
    }

    /// Judges a document's claim as [`conclude`](Self::conclude) does, and names the comparisons left out; if
    /// that is all of them, nothing is judged.
    pub(crate) fn conclude_but(
        &self,
        source: &str,
        mut here: Vec<String>,
        left_out: &[String],
    ) -> Conclusion {
        if here.is_empty() && !left_out.is_empty() {
            return Conclusion::not_judged(source, &left_out.join("; "));
        }
        here.extend(left_out.iter().map(|why| format!("left out: {why}")));
        self.conclude(source, &here.join("; "))
    }

    /// Judges a document's claim: noise neither agrees with it nor differs from it.
    pub(crate) fn conclude(&self, source: &str, here: &str) -> Conclusion {
        const SPREAD: &str = "repeats spread over more than they differ by, or there is only one";
        match (self.judged(), self.unclear) {
            (0, 0) => Conclusion::not_measured(source),
            (0, _) => Conclusion::not_judged(source, &format!("{SPREAD}; {here}")),
            (judged, 0) => Conclusion::new(source, here, Agreement::of_share(self.more, judged)),
            (judged, unclear) => {
                let here = format!("{here}; left out: {unclear} where {SPREAD}");
                Conclusion::new(source, &here, Agreement::of_share(self.more, judged))
            }
        }
    }
}

/// Returns the citation of a published measurement; reports identify it by a number.
pub(crate) fn citation(document: &str) -> &str {
    match document {
        "000" => "the Wendelstein 7-X monitoring paper",
        "001" => "Gu & Grossman 2005",
        "002" => "the UDP notes",
        "003" => "Petri 2007 (VIOLA report)",
        "004" => "Scollo (DLR/TU Braunschweig)",
        other => other,
    }
}

/// Writes each published conclusion with the result here.
pub(super) fn write_conclusions(
    formatter: &mut fmt::Formatter<'_>,
    conclusions: &[Conclusion],
) -> fmt::Result {
    for (index, it) in conclusions.iter().enumerate() {
        if index > 0 {
            writeln!(formatter)?;
        }
        write_hanging(formatter, "  published: ", &it.source)?;
        let here = match it.agreement {
            Agreement::NotMeasured => it.here.clone(),
            agreement => format!("{} ({})", it.here, agreement.words()),
        };
        write_hanging(formatter, "  here:      ", &here)?;
    }
    Ok(())
}

/// Writes the conclusions for a page.
pub(super) fn table(conclusions: &[Conclusion]) -> Table {
    Columns::<&Conclusion>::new()
        .words("published", |it| it.source.as_str())
        .words("here", |it| it.here.as_str())
        .words("", |it| it.agreement.words())
        .table(conclusions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Contrast::{Alike, Less, More, Unclear};

    #[test]
    fn noise_neither_agrees_nor_differs() {
        let conclude = |contrasts: &[Contrast]| {
            Comparisons::of(contrasts.iter().copied()).conclude("more is more", "found")
        };
        for (contrasts, agreement) in [
            (&[More, More][..], Agreement::Agrees),
            (&[More, Unclear], Agreement::Agrees),
            (&[More, Less, Unclear], Agreement::Partly),
            (&[Alike], Agreement::Differs),
            (&[Less, Unclear], Agreement::Differs),
            (&[Unclear, Unclear], Agreement::NotMeasured),
            (&[], Agreement::NotMeasured),
        ] {
            assert_eq!(conclude(contrasts).agreement, agreement, "{contrasts:?}");
        }
        let not_more = Comparisons::of([Less, Alike, Unclear, More]).turned();
        assert_eq!((not_more.more, not_more.less, not_more.judged()), (2, 1, 3));
        assert!(conclude(&[Unclear]).here.contains("cannot be judged here: repeats spread over more"));
        assert!(conclude(&[More, Unclear]).here.starts_with("found; left out: 1 where repeats"));
        assert_eq!(conclude(&[]).here, "not measured");
    }

    #[test]
    fn no_verdict_stands_over_a_noisy_measurement_and_its_figures_stay() {
        let judged = Conclusion::new("it", "twice as much", Agreement::Agrees);
        assert_eq!(judged.clone().unless(&[]), judged);
        let noisy = judged.unless(&["other work".to_owned()]);
        assert_eq!(noisy.agreement, Agreement::NotMeasured);
        assert_eq!(
            noisy.here,
            "cannot be judged here: it was noisy while it was measured: other work; twice as much"
        );
        let open = Conclusion::not_judged("it", "why");
        assert_eq!(open.clone().unless(&["other work".to_owned()]), open);
    }

    #[test]
    fn what_could_not_be_compared_is_named_and_alone_it_is_no_verdict() {
        let left_out = ["a hole".to_owned()];
        let named = Comparisons::of([More]).conclude_but("it", vec!["found".to_owned()], &left_out);
        assert_eq!((named.agreement, &*named.here), (Agreement::Agrees, "found; left out: a hole"));
        let alone = Comparisons::default().conclude_but("it", Vec::new(), &left_out);
        assert_eq!(
            (alone.agreement, &*alone.here),
            (Agreement::NotMeasured, "cannot be judged here: a hole")
        );
    }
}
