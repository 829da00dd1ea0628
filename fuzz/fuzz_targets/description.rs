//! Any bytes as a description in CBOR: refused, or a description that encodes and decodes to itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{Description, DescriptionError, MAX_DESCRIPTION_BYTES};

fuzz_target!(|bytes: &[u8]| {
    let Ok(description) = Description::decode(bytes) else { return };
    match description.encode() {
        Ok(canonical) => assert_eq!(Description::decode(&canonical), Ok(description)),
        // Short floats become long ones, which matters only close to the limit.
        Err(DescriptionError::TooLarge(size)) => assert!(size > MAX_DESCRIPTION_BYTES),
        Err(error) => panic!("{description:?} was read but cannot be written: {error}"),
    }
});
