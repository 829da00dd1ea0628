//! Any bytes as a frame of the page: refused with a reason, or encoded to as many bytes that decode to the same
//! frame.
#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{PictureFrame, ValuesFrame, ViewFrame, WaterfallFrame};

fuzz_target!(|bytes: &[u8]| {
    judge(bytes);
    judge_picture(bytes);
    judge_values(bytes);
    judge_waterfall(bytes);
    let mut begun = bytes.to_vec();
    if begin(&mut begun).is_some() {
        judge(&begun);
    }
});

fn judge(bytes: &[u8]) {
    let Ok(frame) = ViewFrame::decode(bytes) else { return };
    assert_eq!(frame.encoded_bytes(), bytes.len());
    let again = encoded(&frame);
    // The bits of a NaN are unspecified: after the first encoding nothing changes any more.
    let read = ViewFrame::decode(&again).expect("what was written can be read");
    assert_eq!(encoded(&read), again);
}

fn judge_picture(bytes: &[u8]) {
    let Ok(picture) = PictureFrame::decode(bytes) else { return };
    assert_eq!(picture.encoded_bytes(), bytes.len());
    let again = encoded_picture(&picture);
    let read = PictureFrame::decode(&again).expect("what was written can be read");
    assert_eq!(encoded_picture(&read), again);
}

fn encoded_picture(picture: &PictureFrame) -> Vec<u8> {
    let mut bytes = Vec::new();
    picture.encode(&mut bytes).expect("what was accepted is within the limits");
    bytes
}

fn judge_values(bytes: &[u8]) {
    let Ok(values) = ValuesFrame::decode(bytes) else { return };
    let again = encoded_values(&values);
    assert_eq!(again.len(), bytes.len());
    let read = ValuesFrame::decode(&again).expect("what was written can be read");
    assert_eq!(encoded_values(&read), again);
}

fn encoded_values(values: &ValuesFrame) -> Vec<u8> {
    let mut bytes = Vec::new();
    values.encode(&mut bytes).expect("what was accepted is within the limits");
    bytes
}

fn encoded(frame: &ViewFrame) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes).expect("what was accepted is within the limits");
    assert_eq!(bytes.len(), frame.encoded_bytes());
    bytes
}

/// Inserts the beginning of every frame, and a number of traces that a fuzzer can fill.
fn begin(bytes: &mut [u8]) -> Option<()> {
    bytes.get_mut(..4)?.copy_from_slice(&[0x54, 0x50, 1, 1]);
    let counts = bytes.get_mut(12..16)?;
    counts.copy_from_slice(&[counts[0] % 4, 0, counts[2] % 4, 0]);
    Some(())
}

fn judge_waterfall(bytes: &[u8]) {
    let Ok(waterfall) = WaterfallFrame::decode(bytes) else { return };
    let again = encoded_waterfall(&waterfall);
    let read = WaterfallFrame::decode(&again).expect("what was written can be read");
    assert_eq!(encoded_waterfall(&read), again);
}

fn encoded_waterfall(waterfall: &WaterfallFrame) -> Vec<u8> {
    let mut bytes = Vec::new();
    waterfall.encode(&mut bytes).expect("what was accepted is within the limits");
    bytes
}
