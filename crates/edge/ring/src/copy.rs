//! Copying words into shared memory and out of it, while somebody else may be writing there.
//!
//! The meaning is that of the portable loops below: one relaxed atomic access for each word, in no order. A compiler
//! keeps those one by one, and eight bytes at a time is three quarters of what memory gives; so on x86-64 whole
//! lines of cache are copied by instructions like those that `memcpy` would use, and asked for ahead.
#![cfg_attr(
    all(target_arch = "x86_64", not(any(loom, miri))),
    expect(unsafe_code, reason = "no safe access to shared memory is wider than a word")
)]

use crate::layout::WORD_BYTES;
use crate::sync::{AtomicU64, Ordering};

/// Copies words out of shared memory.
///
/// # Panics
/// If there is not a word for every eight bytes.
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
/// If there is not a word for every eight bytes.
pub(crate) fn store_words(words: &[AtomicU64], from: &[u8]) {
    let (chunks, rest) = from.as_chunks::<WORD_BYTES>();
    assert!(rest.is_empty() && chunks.len() == words.len(), "records are whole words");
    let copied = lines::store(words, chunks);
    for (word, chunk) in words[copied..].iter().zip(&chunks[copied..]) {
        word.store(u64::from_le_bytes(*chunk), Ordering::Relaxed);
    }
}

/// Where lines are copied as a whole; both functions return how many words, from the first on, they have copied.
///
/// To the compiler this is code that it cannot see into, and which does no more than relaxed atomic accesses to
/// each word would do: it may race with other processes as those may. To the processor both kinds are plain accesses:
/// loads stay in order with the load of the intent behind them, stores with the intent before and the head
/// behind them; only among themselves a string's stores may change places (Intel SDM, volume 3, 10.2.4).
///
/// Lines that another processor has are asked for ahead: the processor's own look-ahead ends where its queue of
/// loads and stores is full, a few lines on, and each takes as long as a small record's whole work. Prefetching
/// changes nothing but the time, wherever it points. Source: measured, `docs/measured.md`.
#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
mod lines {
    use std::arch::asm;

    use crate::layout::WORD_BYTES;
    use crate::sync::AtomicU64;

    const LINE_WORDS: usize = 8;

    /// From 32 KiB on the processor's own copying of strings is as fast, and spares the rest of its pipeline. Source:
    /// measured.
    const STRING_WORDS: usize = 4096;

    /// So far ahead a reader asks for lines: further than the writer, who then takes back in time what a reader at
    /// its heels took too early.
    const READ_AHEAD_BYTES: usize = 3072;

    /// So far ahead the writer asks for lines that readers still have.
    const WRITE_AHEAD_BYTES: usize = 1024;

    /// Copies lines of which there is at least one; `$prefetch` is done for each, by a distance of `$ahead`.
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
                // SAFETY: both have `count` words, and `into` is borrowed for writing by us alone.
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

    /// Returns how many of so many words can be copied by lines: none on processors from before 2011.
    #[inline]
    fn whole_lines(count: usize) -> usize {
        if std::arch::is_x86_feature_detected!("avx") { count / LINE_WORDS * LINE_WORDS } else { 0 }
    }

    /// Copies `count` words.
    ///
    /// SAFETY: `from` and `into` are valid for `count` words, and do not overlap.
    unsafe fn copy_string(from: *const u64, into: *mut u64, count: usize) {
        // SAFETY: as the caller says; the direction flag is clear, as it is whenever a block of assembly begins.
        unsafe {
            asm!(
                "rep movsq",
                inout("rcx") count => _, inout("rsi") from => _, inout("rdi") into => _,
                options(nostack, preserves_flags)
            );
        }
    }
}

/// Nowhere: every word is copied by itself.
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
