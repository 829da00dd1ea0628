//! Words that may not come back: names of our own for things that the field has names for.
//!
//! Each was replaced in code, pages and messages; `docs/reference/glossary.md` has the terms. A name that is published, such as a JSON
//! key, stays what it was and stands in quotation marks or backticks, which this rule passes over.

use super::Offence;

/// A word, or several in sequence, that the project does not use, and what it says instead.
struct Retired {
    words: &'static str,
    say: &'static str,
    /// Paths, or parts of them, where the word has its ordinary meaning.
    except: &'static [&'static str],
}

const fn retired(words: &'static str, say: &'static str) -> Retired {
    Retired { words, say, except: &[] }
}

const RETIRED: &[Retired] = &[
    // The wire's field `epoch_life`, a segment's life in TCP's sense, and keys of JSON and of the doctor's profiles.
    Retired {
        words: "life",
        say: "epoch; incarnation; run",
        except: &[
            "wire/src/",
            "diagnose/src/audit/tcp.rs",
            "diagnose/src/events/profile.rs",
            "web/src/wire/",
            "web/test/wire/",
        ],
    },
    retired("lives", "epochs; runs; is alive"),
    retired("fate", "outcome"),
    retired("fates", "outcomes"),
    retired("outlet", "publication"),
    retired("inlet", "subscription"),
    // The lanes of CI, and those of PCI Express.
    Retired {
        words: "lane",
        say: "send path",
        except: &["xtask/", "diagnose/src/causes.rs", "CONTRIBUTING.md"],
    },
    retired("letter box", "mailbox"),
    retired("short way", "inline send"),
    retired("bell", "doorbell"),
    retired("relief", "hand-over"),
    retired("cure", "remedy"),
    retired("cures", "remedies"),
    retired("cured", "remedied"),
    retired("narrow way", "PMTU black hole"),
    retired("book", "counters; account"),
    retired("books", "counters; accounts"),
    retired("booked", "counted; attributed"),
    // The key of an account's JSON.
    Retired { words: "leg", say: "hop", except: &["web/src/", "web/dev/"] },
    retired("legs", "hops"),
    // Columns of CSV and names of cases.
    Retired { words: "multiplicity", say: "elements", except: &["bench/src/cycle/csv.rs"] },
    Retired { words: "burn", say: "CPU load", except: &["bench/src/sweep/"] },
    Retired { words: "burned", say: "CPU load", except: &["bench/src/sweep/"] },
    // A type of C, of TypeScript and of NumPy.
    Retired {
        words: "void",
        say: "invalid",
        except: &[
            ".ts",
            ".c",
            ".h",
            ".mjs",
            ".py",
            "ring/src/mapping/fault.rs",
            "bpf/src/btf.rs",
            "classes/device.rs",
        ],
    },
    retired("there and back", "round trip; forward and reverse"),
    retired("source 000", "Wendelstein 7-X monitoring paper"),
    retired("source 001", "Gu & Grossman 2005"),
    retired("source 002", "UDP notes"),
    retired("source 003", "Petri 2007"),
    retired("source 004", "Scollo"),
    retired("comes to grief", "has failed"),
    retired("nobody answers", "no answer from …"),
    retired("is no option", "unknown option"),
    retired("wanted to end", "cancelled"),
    retired("end wish", "cancellation"),
];

/// Files in which words are looked at.
const ENDINGS: &[&str] = &[".rs", ".py", ".ts", ".c", ".h", ".md", ".mjs"];

/// Files that tell of the words themselves, or keep what was published.
const EXCEPT: &[&str] = &["xtask/src/tidy/words.rs", "tests/golden/", "seeds/", "LICENSE"];

/// Checks a file of code or text.
pub(super) fn check(path: &str, text: &str) -> Vec<Offence> {
    if !ENDINGS.iter().any(|ending| path.ends_with(ending)) || EXCEPT.iter().any(|it| path.contains(it)) {
        return Vec::new();
    }
    let lines = text.lines().enumerate();
    let found = lines.flat_map(|(index, line)| retired_in(path, line).map(move |retired| (index, retired)));
    found
        .map(|(index, Retired { words, say, .. })| {
            Offence::new(path, index + 1, format!("`{words}` is a word of our own: say {say}"))
        })
        .collect()
}

/// Returns what stands in a line and should not.
fn retired_in<'a>(path: &'a str, line: &'a str) -> impl Iterator<Item = &'static Retired> + 'a {
    let words = words(line);
    RETIRED.iter().filter(move |retired| {
        let sought: Vec<&str> = retired.words.split(' ').collect();
        let is_here = |found: &[Word<'_>]| found.iter().zip(&sought).all(|(word, sought)| word.is(sought));
        !retired.except.iter().any(|except| path.contains(except))
            && words.windows(sought.len()).any(|found| is_here(found) && !is_quoted(line, found[0].start))
    })
}

/// A word of a line: letters, or digits. `EpochLife` and `epoch_life` are two words each.
struct Word<'a> {
    text: &'a str,
    start: usize,
}

impl Word<'_> {
    fn is(&self, sought: &str) -> bool {
        self.text.eq_ignore_ascii_case(sought)
    }
}

fn words(line: &str) -> Vec<Word<'_>> {
    let bytes = line.as_bytes();
    let mut words = Vec::new();
    let mut start = 0;
    for at in 0..=bytes.len() {
        let ends = at == bytes.len() || at > start && !is_one_word(bytes[at - 1], bytes[at]);
        if ends && at > start && bytes[start].is_ascii_alphanumeric() {
            words.push(Word { text: &line[start..at], start });
        }
        if ends {
            start = at;
        }
    }
    words
}

/// Tells whether two characters that follow each other belong to one word.
const fn is_one_word(before: u8, after: u8) -> bool {
    let is_letter = before.is_ascii_alphabetic() && after.is_ascii_alphabetic();
    (is_letter && !(before.is_ascii_lowercase() && after.is_ascii_uppercase()))
        || (before.is_ascii_digit() && after.is_ascii_digit())
        || (!before.is_ascii_alphanumeric() && !after.is_ascii_alphanumeric())
}

/// Tells whether the name around a position stands in quotation marks or backticks, as published names do.
fn is_quoted(line: &str, at: usize) -> bool {
    let is_of_name =
        |character: &char| character.is_ascii_alphanumeric() || "_-.=[]$/*…".contains(*character);
    let before = line[..at].chars().rev().find(|it| !is_of_name(it));
    let after = line[at..].chars().find(|it| !is_of_name(it));
    let is_quote = |character: Option<char>| character.is_some_and(|it| "\"'`".contains(it));
    is_quote(before) && is_quote(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> Vec<&'static str> {
        retired_in("crates/a.rs", line).map(|retired| retired.words).collect()
    }

    #[test]
    fn a_retired_word_is_found_alone_and_within_names() {
        assert_eq!(found("/// The life of a publisher."), ["life"]);
        assert_eq!(found("fn close_life(epoch: EpochLife)"), ["life"]);
        assert_eq!(found("const MAX_LIVES: usize = 3; // lives"), ["lives"]);
        assert_eq!(found("its agent comes to grief"), ["comes to grief"]);
        assert_eq!(found("figures of source 001"), ["source 001"]);
    }

    #[test]
    fn longer_words_and_published_names_are_passed_over() {
        assert_eq!(found("lifetime, notebook, doorbell, legend, Lifetime"), [""; 0]);
        assert_eq!(found("json!({ \"life\": 1, \"is_void\": true }) and `lost.leg`"), [""; 0]);
        assert_eq!(found("#[serde(rename = \"leg\")]"), [""; 0]);
        assert_eq!(retired_in("web/a.ts", "void f()").count(), 0);
    }
}
