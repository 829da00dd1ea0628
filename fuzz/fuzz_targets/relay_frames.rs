//! Any bytes as a message on the link: refused, or encoded so that they decode to the same; and any messages at both
//! ends, which ignore what cannot be and keep their counters.
#![no_main]

use core::time::Duration;

use libfuzzer_sys::fuzz_target;
use relay::frame::Message;
use relay::{FarConfig, FarEnd, FarInput, FarOutput, NearConfig, NearEnd, NearInput, NearOutput, Path};
use units::Instant;

fuzz_target!(|messages: Vec<(u16, Vec<u8>)>| {
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut near = NearEnd::new(NearConfig::default(), now);
    let mut far = FarEnd::new(FarConfig::default(), now);
    let path = Path {
        round_trip: Duration::from_millis(20),
        clock_us: 0,
        room: 100,
        message_bytes: 1_400,
        is_up: true,
    };
    near.handle(now, NearInput::Connected);
    near.handle(now, NearInput::Path(path));
    far.handle(now, FarInput::Connected);
    far.handle(now, FarInput::Path(path));
    for (pause_ms, bytes) in &messages {
        if let Ok(message) = Message::decode(bytes) {
            assert_eq!(Message::decode(&message.encode()), Ok(message));
        }
        now += Duration::from_millis(u64::from(*pause_ms));
        near.handle(now, NearInput::Message(bytes));
        far.handle(now, FarInput::Message { bytes, sent_us: 0, arrived: now });
        for _ in 0..1_000 {
            if matches!(near.poll(now), NearOutput::Idle { .. }) {
                break;
            }
        }
        while !matches!(far.poll(now), FarOutput::Idle { .. }) {}
    }
});
