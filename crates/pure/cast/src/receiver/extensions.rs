//! Datagrams that could not be used because of a critical extension that this version does not know, by its type.

/// Number of types counted separately: those that the protocol names or reserves, twice over.
const MAX_TYPES: usize = 18;

/// Counts datagrams by the type of the extension that kept them from being used.
///
/// Memory: bounded; further types are only counted in the total.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct UnknownExtensions {
    /// Types with their counts, in the order of their first appearance; type 0 marks a free slot.
    types: [(u8, u64); MAX_TYPES],
    total: u64,
}

impl UnknownExtensions {
    pub(super) fn count(&mut self, code: u8) {
        self.total += 1;
        let known = self.types.iter_mut().find(|(of_type, _)| *of_type == code || *of_type == 0);
        if let Some((of_type, count)) = known {
            *of_type = code;
            *count += 1;
        }
    }

    /// Returns the total. Units: datagrams.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Returns the types with their counts, each at least 1. Units: datagrams.
    pub fn by_type(&self) -> impl Iterator<Item = (u8, u64)> + '_ {
        self.types.iter().copied().filter(|(of_type, _)| *of_type != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forger_of_every_type_takes_no_more_room_and_hides_none_of_the_first() {
        let mut unknown = UnknownExtensions::default();
        for code in (1..=u8::MAX).chain(1..=u8::MAX) {
            unknown.count(code);
        }
        assert_eq!(unknown.total(), 510);
        assert_eq!(unknown.by_type().collect::<Vec<_>>(), (1..=18).map(|code| (code, 2)).collect::<Vec<_>>());
    }
}
