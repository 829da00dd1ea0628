//! Copying words into shared memory and out of it, while somebody else may be writing there.
//!
//! The meaning is that of the portable loops below: one relaxed atomic access for each word, in no order. A compiler
//! keeps those one by one, and eight bytes at a time is three quarters of what memory gives; so on x86-64 whole
//! lines of cache are copied by the same instructions that `memcpy` would use.
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
#[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
mod lines {
    use std::arch::asm;

    use crate::layout::WORD_BYTES;
    use crate::sync::AtomicU64;

    const LINE_WORDS: usize = 8;

    /// From 8 KiB on the processor's own copying of strings is faster. Source: measured; the C library's `memcpy`
    /// changes over at the same size.
    const STRING_WORDS: usize = 1024;

    pub(super) fn load(words: &[AtomicU64], into: &mut [[u8; WORD_BYTES]]) -> usize {
        let count = words.len().min(into.len()) / LINE_WORDS * LINE_WORDS;
        // SAFETY: both have `count` words, and `into` is borrowed for writing by us alone.
        unsafe { copy(words.as_ptr().cast(), into.as_mut_ptr().cast(), count) };
        count
    }

    pub(super) fn store(words: &[AtomicU64], from: &[[u8; WORD_BYTES]]) -> usize {
        let count = words.len().min(from.len()) / LINE_WORDS * LINE_WORDS;
        // SAFETY: both have `count` words; atomics may be written to through a shared reference.
        unsafe { copy(from.as_ptr().cast(), words.as_ptr().cast_mut().cast(), count) };
        count
    }

    /// Copies `count` words, a multiple of a line's.
    ///
    /// To the compiler this is code that it cannot see into, and which does no more than relaxed atomic accesses to
    /// each word would do: it may race with other processes as those may. To the processor both kinds are plain accesses:
    /// loads stay in order with the load of the intent behind them, stores with the intent before and the head
    /// behind them; only among themselves a string's stores may change places (Intel SDM, volume 3, 10.2.4).
    ///
    /// SAFETY: `from` and `into` are valid for `count` words, and do not overlap.
    unsafe fn copy(from: *const u64, into: *mut u64, count: usize) {
        if count >= STRING_WORDS {
            // SAFETY: as the caller says; the direction flag is clear, as it is whenever a block of assembly begins.
            unsafe {
                asm!(
                    "rep movsq",
                    inout("rcx") count => _, inout("rsi") from => _, inout("rdi") into => _,
                    options(nostack, preserves_flags)
                );
            }
            return;
        }
        for word in (0..count).step_by(LINE_WORDS) {
            // SAFETY: a line of words from `word` on is inside of both, as `count` is a multiple; every x86-64
            // processor has these registers.
            unsafe {
                asm!(
                    "movups {a}, xmmword ptr [{from}]",
                    "movups {b}, xmmword ptr [{from} + 16]",
                    "movups {c}, xmmword ptr [{from} + 32]",
                    "movups {d}, xmmword ptr [{from} + 48]",
                    "movups xmmword ptr [{into}], {a}",
                    "movups xmmword ptr [{into} + 16], {b}",
                    "movups xmmword ptr [{into} + 32], {c}",
                    "movups xmmword ptr [{into} + 48], {d}",
                    from = in(reg) from.add(word), into = in(reg) into.add(word),
                    a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
                    options(nostack, preserves_flags)
                );
            }
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
        for count in (0..40).chain([1016, 1023, 1024, 1025, 1031, 1032, 3000]) {
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
