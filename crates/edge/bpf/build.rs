//! Compiles the hook with the clang that is there; where there is none, the object that is shipped does.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// What the shipped object is made with, so that it can be made again; `-g` is what the kernel's types are found by.
const FLAGS: [&str; 8] =
    ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-fdebug-compilation-dir=."];

/// Older ones do not know the relocations.
const OLDEST_CLANG: u32 = 14;

fn main() {
    println!("cargo::rerun-if-changed=src/hook.bpf.c");
    println!("cargo::rerun-if-changed=src/hook.bpf.o");
    println!("cargo::rerun-if-env-changed=CLANG");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("hook.bpf.o");
    let from = match clang() {
        Some(clang) if compile(&clang, &out) => clang,
        _ => {
            if let Err(error) = fs::copy("src/hook.bpf.o", &out) {
                println!("cargo::error=the shipped object of the hook cannot be copied: {error}");
            }
            "shipped".to_owned()
        }
    };
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

fn compile(clang: &str, out: &Path) -> bool {
    let status = Command::new(clang).args(FLAGS).args(["-c", "src/hook.bpf.c", "-o"]).arg(out).status();
    let compiled = status.is_ok_and(|status| status.success());
    if !compiled {
        println!("cargo::warning={clang} cannot compile the hook; the shipped object is taken");
    }
    compiled
}
