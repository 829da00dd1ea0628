//! Refusal of options that would be ignored, with the same text in every test.

/// An option without effect on the measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{option} has no effect {when}\nleave it out, or {remedy}")]
pub struct WithoutEffect {
    /// Name of the option.
    pub option: &'static str,
    /// Condition under which it has no effect.
    pub when: &'static str,
    /// Change that would give it an effect.
    pub remedy: &'static str,
}
