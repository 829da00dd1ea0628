//! The running kernel's own types (BTF), as far as they are needed: names of its drop reasons, and arguments of
//! tracepoints.
//!
//! Reasons are renumbered in every release, so their names are read here and are in no table. Source of the
//! format: the kernel's `Documentation/bpf/btf.rst`.

use std::collections::BTreeMap;

/// Types of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Types<'a> {
    types: &'a [u8],
    strings: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
struct Type {
    name_at: u32,
    kind: u8,
    /// Number of members, values or parameters.
    members: usize,
    /// The type that it points to or names, or a size.
    of: u32,
    /// Offset of its body.
    body_at: usize,
}

mod kind {
    pub(super) const INT: u8 = 1;
    pub(super) const POINTER: u8 = 2;
    pub(super) const ARRAY: u8 = 3;
    pub(super) const STRUCT: u8 = 4;
    pub(super) const UNION: u8 = 5;
    pub(super) const ENUM: u8 = 6;
    pub(super) const TYPEDEF: u8 = 8;
    pub(super) const FUNCTION: u8 = 12;
    pub(super) const PROTOTYPE: u8 = 13;
    pub(super) const VARIABLE: u8 = 14;
    pub(super) const SECTION: u8 = 15;
    pub(super) const TAG: u8 = 17;
    pub(super) const ENUM64: u8 = 19;
}

/// Size of the head of every type.
const HEAD_BYTES: usize = 12;

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl<'a> Types<'a> {
    /// Locates types and strings; `None` for bytes that are not BTF of this machine's byte order.
    #[must_use]
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        const MAGIC: u32 = 0xeb9f;
        let field = |at| half(bytes, at).map(|value| value as usize);
        if field(0)? & 0xffff != MAGIC as usize {
            return None;
        }
        let body = bytes.get(field(4)?..)?;
        let part = |at: usize, size_at: usize| {
            let start = field(at)?;
            body.get(start..start.checked_add(field(size_at)?)?)
        };
        Some(Self { types: part(8, 12)?, strings: part(16, 20)? })
    }

    /// Returns the names of an enumeration's values; empty if there is no enumeration of this name.
    #[must_use]
    pub fn enumeration(&self, name: &str) -> BTreeMap<u32, &'a str> {
        let wanted = |it: &Type| it.kind == kind::ENUM && self.name(it.name_at) == Some(name);
        let Some(found) = self.each().find(wanted) else { return BTreeMap::new() };
        let value = |index: usize| {
            let at = found.body_at + 8 * index;
            Some((half(self.types, at + 4)?, self.name(half(self.types, at)?)?))
        };
        (0..found.members).filter_map(value).collect()
    }

    /// Returns the number of a tracepoint's arguments; `None` if there is no tracepoint of this name.
    #[must_use]
    pub fn tracepoint_values(&self, name: &str) -> Option<usize> {
        let name = format!("btf_trace_{name}");
        let typedef =
            self.each().find(|it| it.kind == kind::TYPEDEF && self.name(it.name_at) == Some(&name))?;
        let pointer = self.type_of(typedef.of).filter(|it| it.kind == kind::POINTER)?;
        let prototype = self.type_of(pointer.of).filter(|it| it.kind == kind::PROTOTYPE)?;
        // The first parameter is the tracepoint's own.
        prototype.members.checked_sub(1)
    }

    /// Returns the number of a function; `None` if there is no function of this name.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<u32> {
        let is_wanted = |it: &Type| it.kind == kind::FUNCTION && self.name(it.name_at) == Some(name);
        let index = self.each().position(|it| is_wanted(&it))?;
        u32::try_from(index + 1).ok()
    }

    /// Returns a type by its number; types are numbered from 1 in their order.
    fn type_of(&self, number: u32) -> Option<Type> {
        self.each().nth(usize::try_from(number).ok()?.checked_sub(1)?)
    }

    fn each(&self) -> impl Iterator<Item = Type> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let info = half(self.types, at + 4)?;
            let kind = u8::try_from(info >> 24 & 0x1f).ok()?;
            let members = (info & 0xffff) as usize;
            let found = Type {
                name_at: half(self.types, at)?,
                kind,
                members,
                of: half(self.types, at + 8)?,
                body_at: at + HEAD_BYTES,
            };
            at += HEAD_BYTES + body_bytes(kind, members);
            Some(found)
        })
    }

    fn name(&self, at: u32) -> Option<&'a str> {
        let rest = self.strings.get(at as usize..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        core::str::from_utf8(&rest[..end]).ok()
    }
}

/// Returns the size of the body of a type.
const fn body_bytes(kind: u8, members: usize) -> usize {
    match kind {
        kind::INT | kind::VARIABLE | kind::TAG => 4,
        kind::ARRAY => 12,
        kind::STRUCT | kind::UNION | kind::SECTION | kind::ENUM64 => 12 * members,
        kind::ENUM | kind::PROTOTYPE => 8 * members,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Path of the running kernel's types.
    const KERNEL: &str = "/sys/kernel/btf/vmlinux";

    /// Returns `enum why { A = 0, B = 2 }` behind an integer, and `typedef (*)(void *, int, int) btf_trace_it`.
    fn small() -> Vec<u8> {
        let strings = b"\0int\0why\0A\0B\0btf_trace_it\0";
        let mut types: Vec<u32> = Vec::new();
        let head = |kind: u32, members: u32| kind << 24 | members;
        types.extend([1, head(1, 0), 4, 32]);
        types.extend([5, head(6, 2), 4, 9, 0, 11, 2]);
        types.extend([0, head(13, 3), 0, 0, 0, 0, 1, 0, 1]);
        types.extend([0, head(2, 0), 3]);
        types.extend([13, head(8, 0), 4]);
        let type_bytes = types.len() as u32 * 4;
        let header = [0x0001_eb9f, 24, 0, type_bytes, type_bytes, strings.len() as u32];
        header.iter().chain(&types).flat_map(|word| word.to_le_bytes()).chain(*strings).collect()
    }

    #[test]
    fn names_and_parameters_are_found_behind_other_types() {
        let bytes = small();
        let types = Types::parse(&bytes).unwrap();
        assert_eq!(types.enumeration("why"), BTreeMap::from([(0, "A"), (2, "B")]));
        assert_eq!(types.enumeration("int"), BTreeMap::new(), "no enumeration");
        assert_eq!(types.tracepoint_values("it"), Some(2));
        assert_eq!(types.tracepoint_values("other"), None);
    }

    #[test]
    fn what_is_cut_anywhere_is_read_as_far_as_it_goes() {
        let bytes = small();
        for end in 0..bytes.len() {
            if let Some(types) = Types::parse(&bytes[..end]) {
                let _ = (types.enumeration("why"), types.tracepoint_values("it"));
            }
        }
        assert!(Types::parse(b"").is_none());
    }

    #[test]
    fn the_running_kernel_names_its_reasons() {
        let Ok(bytes) = std::fs::read(KERNEL) else {
            println!("SKIPPED: this kernel has no {KERNEL}");
            return;
        };
        let types = Types::parse(&bytes).unwrap();
        let reasons = types.enumeration("skb_drop_reason");
        assert!(reasons.values().any(|name| *name == "SKB_DROP_REASON_NO_SOCKET"), "{reasons:?}");
        assert!(types.tracepoint_values("kfree_skb") >= Some(2));
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(change in any::<(u16, u8)>(), end in any::<u16>()) {
            let mut bytes = small();
            let at = usize::from(change.0) % bytes.len();
            bytes[at] = change.1;
            bytes.truncate(usize::from(end) % (bytes.len() + 1));
            if let Some(types) = Types::parse(&bytes) {
                let _ = (types.enumeration("why"), types.tracepoint_values("it"));
            }
        }
    }
}
