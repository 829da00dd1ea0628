//! Declares the `loom` configuration, so that a misspelt one still gives a warning.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(loom)");
    println!("cargo::rerun-if-changed=build.rs");
}
