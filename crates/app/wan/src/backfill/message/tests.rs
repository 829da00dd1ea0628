//! Messages of the backfill: round trips, and refusals of malformed ones.

use super::*;
use sample::{Channel, Dtype, Schema};
use units::{Epoch, SampleRate};

fn description(dtype: Dtype) -> Arc<Description> {
    let channels = vec![Channel::new("a", "V"), Channel::new("b", "V")];
    Arc::new(Description {
        name: Arc::new("lab/probe".parse().unwrap()),
        epoch: Epoch { start_ns: 7, incarnation: 9 },
        schema: Arc::new(Schema::new(dtype, SampleRate::hz(1_000).unwrap(), channels).unwrap()),
        station: "daq".to_owned(),
    })
}

fn set(ranges: impl IntoIterator<Item = Range<u64>>) -> RangeSet {
    ranges.into_iter().collect()
}

fn one(range: Range<u64>) -> RangeSet {
    set(std::iter::once(range))
}

fn supply() -> Supply {
    let description = description(Dtype::I16);
    let block = |first_index: u64, missing| Block {
        stream: Arc::clone(&description.name),
        schema: Arc::clone(&description.schema),
        epoch: description.epoch,
        first_index,
        t0: WallTime::from_nanos(-5),
        samples: 2,
        data: SampleBuffer::from_bytes(&[1, 2, 3, 4, 5, 6, 7, 8]),
        missing,
    };
    let blocks = vec![block(10, set([])), block(14, set([1..2, 3..4]))];
    let (answered, lacking) = (set([10..12, 13..16]), set([26..28, 29..30, 31..32]));
    Supply { description, station: "daq".into(), reaches: 3..90, answered, blocks, lacking }
}

#[test]
fn what_is_sent_is_read() {
    let wanted = Wanted { id: 3, stream: "a".into(), epoch: "1-2".into(), samples: vec![(4, 5)] };
    let answer = Answer { id: 3, bytes: 7, blake3: "00".into() };
    let refusal = Refusal { id: 3, reason: "not here".into() };
    let messages = [
        Message::Greeting("near".into()),
        Message::Here,
        Message::Want(wanted),
        Message::Answer(answer),
        Message::Piece(vec![1, 2]),
        Message::Refusal(refusal),
    ];
    for message in messages {
        assert_eq!(is_greeting(&message.encode()), matches!(message, Message::Greeting(_)));
        assert_eq!(Message::decode(&message.encode()), Ok(message));
    }
    for bytes in [&b""[..], &[9], b"\x02{}", &[2, 0xff]] {
        assert!(Message::decode(bytes).is_err(), "{bytes:?}");
    }
}

#[test]
fn an_answer_is_read_as_it_was_written_and_any_other_is_refused_in_words() {
    let (supply, asked) = (supply(), one(0..100));
    let content = encode(&supply, "near");
    let found = decode(&content, &supply.description, &asked).unwrap();
    assert_eq!((&*found.station, found.reaches, found.answered), ("near", 3..90, supply.answered.clone()));
    assert_eq!((found.lacking, found.blocks.len()), (supply.lacking.clone(), 2));
    for (ours, own) in found.blocks.iter().zip(&supply.blocks) {
        assert_eq!((ours.first_index, ours.t0, ours.samples), (own.first_index, own.t0, own.samples));
        assert_eq!((ours.data.as_bytes(), &ours.missing), (own.data.as_bytes(), &own.missing));
    }
    // Between two blocks an answer may end: then it has fewer samples, and they are asked for again.
    let whole = [content.len() - 8 - 32 - 32 - 40, content.len() - 8 - 32 - 32];
    for cut in 0..content.len() {
        let is_whole = decode(&content[..cut], &supply.description, &asked).is_ok();
        assert!(!is_whole || whole.contains(&cut), "cut at {cut}");
    }
    let refused = |supply: &Supply, ours: &Arc<Description>, asked: &RangeSet| {
        decode(&encode(supply, "near"), ours, asked).unwrap_err().to_string()
    };
    assert!(refused(&supply, &description(Dtype::U16), &asked).contains("schema"));
    let other = Arc::new(Description {
        epoch: Epoch { start_ns: 1, incarnation: 1 },
        ..(*supply.description).clone()
    });
    assert!(refused(&supply, &other, &asked).contains("epoch"));
    assert!(refused(&supply, &supply.description, &one(10..12)).contains("not asked"));
    let narrow = Supply { answered: one(13..16), ..supply.clone() };
    assert!(refused(&narrow, &supply.description, &asked).contains("not asked for"));
    let wide = Supply { lacking: one(0..1), ..supply.clone() };
    assert!(refused(&wide, &supply.description, &asked).contains("lacks"));
    let twice = Supply { blocks: vec![supply.blocks[0].clone(), supply.blocks[0].clone()], ..supply.clone() };
    assert!(refused(&twice, &supply.description, &asked).contains("twice"));
    let far = Supply { reaches: 3..u64::MAX, ..supply.clone() };
    assert!(refused(&far, &supply.description, &asked).contains("beyond all numbers"));
    let mut odd = supply.clone();
    odd.blocks[0].missing = one(7..8);
    assert!(refused(&odd, &supply.description, &asked).contains("cannot have"));
    assert!(ranges(&[(u64::MAX, 2)]).is_err());
}
