//! Any bytes as a packet of the reliable transport: refused, or encoded so that it decodes to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::udt::{Body, Data, HEADER_BYTES, Packet};

fuzz_target!(|bytes: &[u8]| {
    let Some(written) = rewrite(bytes) else { return };
    // Unused words are not written, and empty fields are filled: one pass is enough for both.
    assert_eq!(rewrite(&written).as_ref(), Some(&written));
    assert_eq!(Packet::destination(&written), Packet::destination(bytes));
});

fn rewrite(bytes: &[u8]) -> Option<Vec<u8>> {
    match Packet::read(bytes).ok()? {
        Packet::Data(Data { sequence, message, timestamp_us, destination, payload }) => {
            let mut header = [0; HEADER_BYTES];
            Data::write_header(&mut header, sequence, message, timestamp_us, destination);
            Some([&header[..], payload].concat())
        }
        Packet::Control(control) => {
            if let Body::Nak(list) = control.body {
                let count = list.ranges().count();
                assert!(count * 4 <= bytes.len(), "{count} ranges in {} bytes", bytes.len());
            }
            let mut written = Vec::new();
            control.write(&mut written);
            Some(written)
        }
    }
}
