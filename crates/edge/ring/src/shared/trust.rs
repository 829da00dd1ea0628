//! Trust in rings: a process trusts those of root, of its own user, and of a configured group.
//!
//! Any user can take a name in a memory file system. The contents of a ring are checked so that
//! they cannot harm memory; whether its samples are the publisher's depends on the owner of its
//! file, which the kernel records. So does the group of a file: only members of a group may give a
//! file to it (chown(2)), unless its directory passes its own group on (inode(7), `S_ISGID`).

/// Owners whose rings are trusted in addition to root and the own user.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Trusted {
    /// The number of a group whose members are trusted.
    pub group: Option<u32>,
}

/// Ownership and mode of a file, as the kernel reports them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ownership {
    pub(super) owner: u32,
    pub(super) group: u32,
    pub(super) mode: u32,
}

/// Reason why a ring is not trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Distrust {
    /// Its file belongs to another user.
    Owner(u32),
    /// Users other than its owner may write its file.
    Writable,
}

/// Mode bits that let the group and others write. Source: inode(7). Writers of this program never
/// set them.
const OTHERS_MAY_WRITE: u32 = 0o022;

impl Ownership {
    /// Returns why a process of `user` does not trust it, `None` if it does.
    pub(super) fn distrusted_by(self, user: u32, trusted: Trusted) -> Option<Distrust> {
        let is_of_group = trusted.group == Some(self.group);
        if self.owner != 0 && self.owner != user && !is_of_group {
            return Some(Distrust::Owner(self.owner));
        }
        (self.mode & OTHERS_MAY_WRITE != 0).then_some(Distrust::Writable)
    }
}

impl std::fmt::Display for Distrust {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Owner(owner) => write!(formatter, "it belongs to user {owner}"),
            Self::Writable => formatter.write_str("others than its owner may write it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_the_own_user_and_a_named_group_are_trusted() {
        let of = |owner, group| Ownership { owner, group, mode: 0o100_644 };
        let nobody = Trusted::default();
        let group = Trusted { group: Some(50) };
        for (ownership, trusted, expected) in [
            (of(0, 0), nobody, None),
            (of(7, 7), nobody, None),
            (of(8, 7), nobody, Some(Distrust::Owner(8))),
            (of(8, 0), nobody, Some(Distrust::Owner(8))),
            (of(8, 50), nobody, Some(Distrust::Owner(8))),
            (of(8, 50), group, None),
            (of(8, 51), group, Some(Distrust::Owner(8))),
            (of(7, 51), group, None),
        ] {
            assert_eq!(ownership.distrusted_by(7, trusted), expected, "{ownership:?} {trusted:?}");
        }
        assert_eq!(of(7, 7).distrusted_by(0, nobody), Some(Distrust::Owner(7)), "root trusts root");
    }

    #[test]
    fn files_that_others_may_write_are_not_trusted_whoever_owns_them() {
        for mode in [0o664, 0o646, 0o666, 0o660] {
            let ownership = Ownership { owner: 7, group: 50, mode };
            for trusted in [Trusted::default(), Trusted { group: Some(50) }] {
                assert_eq!(ownership.distrusted_by(7, trusted), Some(Distrust::Writable), "{mode:o}");
            }
        }
        for mode in [0o600, 0o640, 0o644] {
            assert_eq!(Ownership { owner: 7, group: 7, mode }.distrusted_by(7, Trusted::default()), None);
        }
    }
}
