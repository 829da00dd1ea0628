//! Any bytes as the file of the local certificate authority: refused with the remedy and without the key, or an authority
//! whose certificate for browsers has no key in it.
//!
//! A fuzzer cannot guess a key, so most inputs are changes to a valid file.
#![no_main]

use std::sync::LazyLock;

use fuzz::private_files::PrivateFolder;
use fuzz::spoil::Spoil;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use monitor::Authority;

const SECRET: &str = "authority.pem";

static FILES: LazyLock<PrivateFolder> = LazyLock::new(PrivateFolder::new);
static VALID: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = PrivateFolder::new();
    Authority::open(folder.path()).expect("a folder of our own");
    std::fs::read(folder.path().join(SECRET)).expect("it was made a moment ago")
});

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    whole: Option<&'a [u8]>,
    spoils: Vec<Spoil<'a>>,
}

fuzz_target!(|input: Input<'_>| {
    let mut file = input.whole.unwrap_or(&VALID).to_vec();
    input.spoils.iter().take(4).for_each(|spoil| spoil.apply(&mut file));
    FILES.clear();
    FILES.put(SECRET, &file);
    match Authority::open(FILES.path()) {
        Ok(authority) => {
            assert_eq!(authority.fingerprint().len(), 95);
            let public = std::fs::read_to_string(authority.certificate_file())
                .expect("it is written with the authority");
            assert!(public.contains("CERTIFICATE") && !public.contains("PRIVATE KEY"), "{public}");
            assert!(!format!("{authority:?}").contains("PRIVATE KEY"));
        }
        Err(error) => assert!(error.to_string().contains("remove it"), "{error}"),
    }
});
