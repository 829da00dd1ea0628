//! Copies words into and out of shared memory while another process may write there.
//!
//! The semantics are those of the portable loops below: one relaxed atomic access per word, in no
//! order. A compiler keeps those separate, and single words reach three quarters of the memory
//! bandwidth; so on x86-64 whole cache lines are copied by instructions like those of `memcpy`,
//! with prefetching.
#![cfg_attr(
    all(target_arch = "x86_64", not(any(loom, miri))),
    expect(unsafe_code, reason = "no safe access to shared memory is wider than a word")
)]

use crate::layout::WORD_BYTES;
use crate::sync::{AtomicU64, Ordering};

/// Copies words out of shared memory.
///
/// # Panics
/// If the number of words does not match the bytes.
pub(crate) fn load_words(words: &[AtomicU64], into: &mut [u8]) {
    let (chunks, rest) = into.as_chunks_mut::<WORD_BYTES>();
    assert!(rest.is_empty() && chunks.len() == words.len(), "records are whole words");
    let copied = lines::load(words, chunks);
    for (chunk, word) in chunks[copied..].iter_mut().zip(&words[copied..]) {
        *chunk = word.load(Ordering::Relaxed).to_le_bytes();
    }
}

/// Copies words into shared memory.
///
/// # Panics
/// If the number of words does not match the bytes.
pub(crate) fn store_words(words: &[AtomicU64], from: &[u8]) {
    let (chunks, rest) = from.as_chunks::<WORD_BYTES>();
    assert!(rest.is_empty() && chunks.len() == words.len(), "records are whole words");
    let copied = lines::store(words, chunks);
    for (word, chunk) in words[copied..].iter().zip(&chunks[copied..]) {
        word.store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
    }
}

/// Copies of whole cache lines; both functions return how many words, from the first on, they have
/// copied.
///
/// To the compiler this is opaque code that does no more than relaxed atomic accesses to each word
/// would: it may race with other processes as those may. To the processor both kinds are plain
/// accesses: loads stay in order with the following load of the intent, stores with the preceding
/// store of the intent and the following one of the head; only the stores within a string operation
/// may be reordered (Intel SDM, volume 3, 10.2.4).
///
/// Lines that another processor holds are prefetched: the processor's own look-ahead ends where its
/// queue of loads and stores is full, a few lines ahead, and each such line takes as long as the
/// whole work for a small record. Prefetching an address changes nothing but the time. Source:
/// measured (`cargo xtask bench ring`).
#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
mod lines {
    use std::arch::asm;

    use crate::layout::WORD_BYTES;
    use crate::sync::AtomicU64;

    const LINE_WORDS: usize = 8;

    /// Size from which the processor's string copy is as fast and leaves the rest of its pipeline
    /// free, 32 KiB. Source: measured.
    const STRING_WORDS: usize = 4096;

    /// Distance at which a reader prefetches lines: greater than the writer's, which takes lines
    /// back in time that a reader close behind it took too early.
    const READ_AHEAD_BYTES: usize = 3072;

    /// Distance at which the writer prefetches lines that readers still hold.
    const WRITE_AHEAD_BYTES: usize = 1024;

    /// Copies at least one line; `$prefetch` is executed for each, at a distance of `$ahead`.
    macro_rules! copy_lines {
        ($from:expr, $into:expr, $count:expr, $prefetch:literal, $ahead:expr) => {
            asm!(
                "2:",
                "vmovups ymm0, ymmword ptr [{from}]",
                "vmovups ymm1, ymmword ptr [{from} + 32]",
                $prefetch,
                "vmovups ymmword ptr [{into}], ymm0",
                "vmovups ymmword ptr [{into} + 32], ymm1",
                "add {from}, 64",
                "add {into}, 64",
                "sub {count}, 8",
                "jnz 2b",
                "vzeroupper",
                from = inout(reg) $from => _,
                into = inout(reg) $into => _,
                count = inout(reg) $count => _,
                ahead = const $ahead,
                out("ymm0") _, out("ymm1") _,
                options(nostack)
            )
        };
    }

    pub(super) fn load(words: &[AtomicU64], into: &mut [[u8; WORD_BYTES]]) -> usize {
        let count = whole_lines(words.len().min(into.len()));
        let (from, into) = (words.as_ptr(), into.as_mut_ptr());
        match count {
            0 => {}
            STRING_WORDS.. => {
                // SAFETY: both have `count` words, and `into` is borrowed exclusively here.
                unsafe { copy_string(from.cast(), into.cast(), count) }
            }
            _ => {
                // SAFETY: as above; `count` is a multiple of a line's words, and the processor has these registers.
                unsafe { copy_lines!(from, into, count, "prefetcht0 [{from} + {ahead}]", READ_AHEAD_BYTES) }
            }
        }
        count
    }

    pub(super) fn store(words: &[AtomicU64], from: &[[u8; WORD_BYTES]]) -> usize {
        let count = whole_lines(words.len().min(from.len()));
        let (from, into) = (from.as_ptr(), words.as_ptr().cast_mut());
        match count {
            0 => {}
            STRING_WORDS.. => {
                // SAFETY: both have `count` words; atomics may be written to through a shared reference.
                unsafe { copy_string(from.cast(), into.cast(), count) }
            }
            _ => {
                // SAFETY: as above; `count` is a multiple of a line's words, and the processor has these registers.
                unsafe { copy_lines!(from, into, count, "prefetchw [{into} + {ahead}]", WRITE_AHEAD_BYTES) }
            }
        }
        count
    }

    /// Returns how many of `count` words can be copied by lines: none on processors from before
    /// 2011.
    #[inline]
    fn whole_lines(count: usize) -> usize {
        if std::arch::is_x86_feature_detected!("avx") { count / LINE_WORDS * LINE_WORDS } else { 0 }
    }

    /// Copies `count` words.
    ///
    /// SAFETY: `from` and `into` are valid for `count` words, and do not overlap.
    unsafe fn copy_string(from: *const u64, into: *mut u64, count: usize) {
        // SAFETY: guaranteed by the caller; the direction flag is clear, as it is whenever a block
        // of assembly begins.
        unsafe {
            asm!(
                "rep movsq",
                inout("rcx") count => _, inout("rsi") from => _, inout("rdi") into => _,
                options(nostack, preserves_flags)
            );
        }
    }
}

/// Portable version: no lines are copied, every word is copied separately.
#[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
mod lines {
    use crate::layout::WORD_BYTES;
    use crate::sync::AtomicU64;

    pub(super) const fn load(_words: &[AtomicU64], _into: &mut [[u8; WORD_BYTES]]) -> usize {
        0
    }

    pub(super) const fn store(_words: &[AtomicU64], _from: &[[u8; WORD_BYTES]]) -> usize {
        0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_length_arrives_and_nothing_behind_it_is_touched() {
        for count in (0..40).chain([1016, 3000, 4088, 4095, 4096, 4097, 4103, 4104, 9000]) {
            let words: Vec<AtomicU64> = (0..count + 8).map(|_| AtomicU64::new(u64::MAX)).collect();
            let from: Vec<u8> = (0..count * WORD_BYTES).map(|at| (at * 7 + at / 251) as u8).collect();
            store_words(&words[..count], &from);
            assert!(words[count..].iter().all(|word| word.load(Ordering::Relaxed) == u64::MAX));
            let mut into = vec![0xa5; from.len() + 64];
            load_words(&words[..count], &mut into[..from.len()]);
            assert_eq!(into[..from.len()], from, "{count} words");
            assert!(into[from.len()..].iter().all(|byte| *byte == 0xa5), "{count} words");
        }
    }
}
