//! The shipped objects, for machines without a suitable compiler, match the sources.

use object::{Object, ObjectSection};

/// A program's object as it was built here, and as it is shipped.
struct Program {
    built: &'static [u8],
    shipped: &'static [u8],
    /// Names of the sections with its instructions.
    sections: &'static [&'static str],
}

macro_rules! program {
    ($name:literal, $sections:expr) => {
        Program {
            built: include_bytes!(concat!(env!("OUT_DIR"), "/", $name)),
            shipped: include_bytes!(concat!("../src/", $name)),
            sections: $sections,
        }
    };
}

const PROGRAMS: [Program; 2] = [
    program!("hook.bpf.o", &["tp_btf/kfree_skb"]),
    program!(
        "checkpoints.bpf.o",
        &[".text", "tp_btf/net_dev_queue", "tp_btf/net_dev_start_xmit", "tp_btf/netif_receive_skb"]
    ),
];

/// Version of the compiler that built it: others generate other instructions.
const CLANG: &str = "14.";

/// Sections of the kernel's input in addition to instructions: constants, maps, types and their uses.
const SECTIONS: [&str; 5] = [".rodata", ".maps", "license", ".BTF", ".BTF.ext"];

#[test]
fn the_shipped_objects_are_what_the_sources_say() {
    let version = std::process::Command::new(bpf::HOOK_FROM).arg("-dumpversion").output();
    if !version.is_ok_and(|output| output.stdout.starts_with(CLANG.as_bytes())) {
        println!("SKIPPED: the hook is from `{}` here; comparing it takes clang {CLANG}x", bpf::HOOK_FROM);
        return;
    }
    let section = |bytes: &'static [u8], name: &str| {
        let file = object::File::parse(bytes).unwrap();
        file.section_by_name(name).unwrap_or_else(|| panic!("no section {name}")).data().unwrap()
    };
    for program in PROGRAMS {
        for name in program.sections.iter().chain(&SECTIONS) {
            assert!(
                section(program.built, name) == section(program.shipped, name),
                "section {name} differs: make it anew as crates/edge/bpf/README.md says"
            );
        }
    }
}
