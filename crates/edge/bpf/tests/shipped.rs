//! The object that is shipped, for machines without a compiler for it, is what the source says.

use object::{Object, ObjectSection};

static BUILT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/hook.bpf.o"));
static SHIPPED: &[u8] = include_bytes!("../src/hook.bpf.o");

/// The compiler that made it: others write other instructions.
const CLANG: &str = "14.";

/// What the kernel is given: instructions, constants, maps, types and where they are used.
const SECTIONS: [&str; 6] = ["tp_btf/kfree_skb", ".rodata", ".maps", "license", ".BTF", ".BTF.ext"];

#[test]
fn the_shipped_object_is_what_the_source_says() {
    let version = std::process::Command::new(bpf::HOOK_FROM).arg("-dumpversion").output();
    if !version.is_ok_and(|output| output.stdout.starts_with(CLANG.as_bytes())) {
        println!("SKIPPED: the hook is from `{}` here; comparing it takes clang {CLANG}x", bpf::HOOK_FROM);
        return;
    }
    let section = |bytes: &'static [u8], name: &str| {
        let file = object::File::parse(bytes).unwrap();
        file.section_by_name(name).unwrap_or_else(|| panic!("no section {name}")).data().unwrap()
    };
    for name in SECTIONS {
        assert!(
            section(BUILT, name) == section(SHIPPED, name),
            "section {name} differs: make it anew as ARCHITECTURE.md says, \"The hook in the kernel\""
        );
    }
}
