//! What is told and would be ignored is refused, in the same words by every test.

/// An option that nothing of what is measured heeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{option} has no effect {when}\nleave it out, or {remedy}")]
pub struct WithoutEffect {
    /// Which option.
    pub option: &'static str,
    /// Why not.
    pub when: &'static str,
    /// What would give it one.
    pub remedy: &'static str,
}
