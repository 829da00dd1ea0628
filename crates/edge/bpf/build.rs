//! Compiles the hook with an available clang; without one, the shipped object is used.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Flags with which the shipped object is reproducible; `-g` adds the types by which the kernel's are found.
const FLAGS: [&str; 8] =
    ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-fdebug-compilation-dir=."];

/// Oldest usable version of clang: older ones lack the relocations.
const OLDEST_CLANG: u32 = 14;

/// The programs, each a C file.
const PROGRAMS: [&str; 2] = ["hook", "checkpoints"];
const SHARED: &str = "src/packet.bpf.h";

fn main() {
    println!("cargo::rerun-if-changed={SHARED}");
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = clang();
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let mut from = clang.clone().unwrap_or_default();
    for program in PROGRAMS {
        let (source, object) = (format!("src/{program}.bpf.c"), format!("{program}.bpf.o"));
        println!("cargo::rerun-if-changed={source}");
        println!("cargo::rerun-if-changed=src/{object}");
        let is_compiled = clang.as_ref().is_some_and(|clang| compile(clang, &source, &out.join(&object)));
        if !is_compiled {
            "shipped".clone_into(&mut from);
            if let Err(error) = fs::copy(format!("src/{object}"), out.join(&object)) {
                println!("cargo::error=the shipped {object} cannot be copied: {error}");
            }
        }
    }
    println!("cargo::rustc-env=HOOK_FROM={from}");
}

/// Returns the first clang that is new enough: `$CLANG`, or one of those that Debian has.
fn clang() -> Option<String> {
    let named = env::var("CLANG").ok();
    let usual =
        ["clang".to_owned()].into_iter().chain((OLDEST_CLANG..30).map(|major| format!("clang-{major}")));
    named.into_iter().chain(usual).find(|clang| major(clang).is_some_and(|major| major >= OLDEST_CLANG))
}

fn major(clang: &str) -> Option<u32> {
    let output = Command::new(clang).arg("-dumpversion").output().ok()?;
    String::from_utf8(output.stdout).ok()?.split('.').next()?.trim().parse().ok()
}

fn compile(clang: &str, source: &str, out: &Path) -> bool {
    let status = Command::new(clang).args(FLAGS).args(["-c", source, "-o"]).arg(out).status();
    let compiled = status.is_ok_and(|status| status.success());
    if !compiled {
        println!("cargo::warning={clang} cannot compile {source}; the shipped object is taken");
    }
    compiled
}
