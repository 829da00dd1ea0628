//! Ranges, thinning and exports, over both forms and while recording continues.

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use archive::{
    Archive, ArchiveError, Compactor, CsvTimes, Export, GapMap, Options, Piece, PointsRequest, Recorder,
    RecordingState, Store, compact, compact_run, read_whole,
};
use ledger::{AccountState, Stage};
use tallycast::Event;

use crate::forgetful::Forgetful;
use crate::scene::{
    EPOCH, PER_SAMPLE, account, at_ms, began, block, element, everything, gap, open, read_back, small,
    stream, time_of,
};

/// Records 1,000 samples in blocks of ten; 300 to 350 lost on purpose, 700 to 710 without a record.
fn recorded() -> (Forgetful, Arc<dyn Store>, Recorder) {
    let disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
    for first in (0..1_000).step_by(10).filter(|first| !(300..350).contains(first) && *first != 700) {
        recorder.handle(at_ms(first), &Event::Block(block(first, 10))).unwrap();
    }
    recorder.handle(at_ms(1_000), &Event::Gap(gap(0, 300..350, Some(Stage::Injected)))).unwrap();
    recorder.tick(at_ms(1_100));
    (disk, store, recorder)
}

fn close(mut recorder: Recorder) {
    recorder.handle(at_ms(1_200), &Event::Ended(account())).unwrap();
    recorder.close(at_ms(1_210)).unwrap();
}

/// Renders pieces as `100..200 [hole 5] 205..300`.
fn drawn(archive: &Archive, entry: &archive::StreamEntry, from: u64, to: u64) -> String {
    let pieces = archive.range(entry, time_of(from)..time_of(to)).filter_map(|piece| match piece.unwrap() {
        Piece::Epoch(_) => None,
        Piece::Block(block) => Some((block.first_index, block.next_index(), None)),
        Piece::Hole(hole) => Some((hole.first_index, hole.first_index + hole.samples, Some(hole))),
    });
    let mut joined: Vec<(u64, u64, String)> = Vec::new();
    for (first, next, hole) in pieces {
        let text = hole.map_or(String::new(), |hole| {
            hole.leading_stage().map_or("?".to_owned(), |stage| stage.name().to_owned())
        });
        match joined.last_mut() {
            Some(last) if last.2 == text && last.1 == first => last.1 = next,
            _ => joined.push((first, next, text)),
        }
    }
    joined.iter().map(|(first, next, text)| format!("{first}..{next} {text}|")).collect()
}

#[test]
fn an_account_of_a_stream_that_has_not_begun_yet_is_passed_over() {
    let store: Arc<dyn Store> = Arc::new(Forgetful::default());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.note_accounts(at_ms(0), &[account()]);
    recorder.handle(at_ms(1), &Event::Began(began(0))).unwrap();
    recorder.handle(at_ms(2), &Event::Block(block(0, 10))).unwrap();
    close(recorder);
    let (archive, entry) = stream(&store);
    assert_eq!(drawn(&archive, &entry, 0, 10), "0..10 |");
}

#[test]
fn a_range_has_exactly_its_samples_and_every_hole_that_touches_it() {
    let (_, store, recorder) = recorded();
    let check = || {
        let (archive, entry) = stream(&store);
        assert_eq!(
            drawn(&archive, &entry, 0, 1_000),
            "0..300 |300..350 injected|350..700 |700..710 ?|710..1000 |"
        );
        assert_eq!(drawn(&archive, &entry, 105, 117), "105..117 |");
        assert_eq!(drawn(&archive, &entry, 320, 330), "300..350 injected|");
        assert_eq!(drawn(&archive, &entry, 340, 360), "300..350 injected|350..360 |");
        assert_eq!(drawn(&archive, &entry, 2_000, 3_000), "");
    };
    check();
    close(recorder);
    check();
    assert!(!compact_run(&*store, &"shot-7".parse().unwrap()).unwrap().is_empty());
    check();
}

#[test]
fn the_catalogue_tells_what_there_is() {
    let (_, store, recorder) = recorded();
    let (archive, entry) = stream(&store);
    let [recording] = &entry.epochs[..] else { panic!("one epoch") };
    assert_eq!(recording.state, RecordingState::Open);
    assert_eq!((recording.first_index, recording.stored_index, recording.samples), (0, 1_000, 940));
    assert_eq!((recording.t0, recording.t1), (time_of(0), time_of(1_000)));
    assert_eq!(recording.losses().0[Stage::Injected], 50 * PER_SAMPLE);
    close(recorder);
    let (_, entry) = stream(&store);
    assert_eq!(entry.epochs[0].state, RecordingState::Closed);
    assert_eq!(entry.epochs[0].account["elements"]["stored"], 940 * PER_SAMPLE);
    assert_eq!(entry.epochs[0].account["reader"]["state"], "closed");
    let unknown = archive.streams(&"shot-8".parse().unwrap());
    assert!(unknown.unwrap_err().to_string().contains("tallycast query"));
    let no_archive = Archive::on(Arc::new(Forgetful::default()));
    assert!(matches!(no_archive.err(), Some(ArchiveError::NoArchive(_))));
}

#[test]
fn a_feed_goes_on_while_its_segments_become_parquet() {
    let (_, store, recorder) = recorded();
    close(recorder);
    let (archive, entry) = stream(&store);
    let mut feed = archive.range(&entry, everything());
    assert!(matches!(feed.next(), Some(Ok(Piece::Epoch(_)))));
    let Some(Ok(Piece::Block(first))) = feed.next() else { panic!("a block") };
    assert!(compact_run(&*store, &"shot-7".parse().unwrap()).unwrap().len() > 1);
    let rest: u64 = feed
        .map(|piece| match piece.unwrap() {
            Piece::Block(block) => block.samples,
            _ => 0,
        })
        .sum();
    assert_eq!(first.samples + rest, 940);
}

#[test]
fn a_damaged_batch_is_a_hole_that_says_so_and_the_rest_is_read() {
    let (disk, store, recorder) = recorded();
    close(recorder);
    let path =
        disk.paths().into_iter().find(|path| path.to_str().unwrap().ends_with("000001.arrows")).unwrap();
    let size = read_whole(&*store, &path).unwrap().len();
    disk.flip(&path, size / 2);
    let read = read_back(&store);
    let damaged: Vec<_> = read.holes.iter().filter(|hole| hole.lost[Stage::ArchiveWrite] > 0).collect();
    let [hole] = damaged[..] else { panic!("one batch is damaged: {:?}", read.holes) };
    assert!(hole.gaps[0].evidence[0].contains("does not match its checksum"));
    assert_eq!(read.samples.len() + hole.samples, 940);
    // An unreadable segment cannot be verified: it stays unchanged.
    let folder = path.parent().unwrap().to_owned();
    assert!(compact(&*store, &archive::ClosedSegment { folder, number: 1 }).is_err());
    assert!(store.open(&path).is_ok());
}

#[test]
fn a_compactor_beside_the_recorder_loses_nothing() {
    let disk = Forgetful::default();
    let store: Arc<dyn Store> = Arc::new(disk.clone());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    let (sender, done) = std::sync::mpsc::channel();
    let report =
        move |result: Result<archive::Compacted, ArchiveError>| sender.send(result.unwrap()).unwrap();
    let compactor = Compactor::start(Arc::clone(&store), report).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
    for first in (0..3_000).step_by(10) {
        recorder.handle(at_ms(first), &Event::Block(block(first, 10))).unwrap();
        compactor.take(recorder.take_closed());
        assert!(read_back(&store).samples.len() <= first + 10);
    }
    recorder.handle(at_ms(3_000), &Event::Ended(account())).unwrap();
    compactor.take(recorder.close(at_ms(3_010)).unwrap());
    drop(compactor);
    assert!(done.iter().count() > 5);
    assert!(!disk.paths().iter().any(|path| path.to_str().unwrap().ends_with(".arrows")));
    assert_eq!(read_back(&store).samples.iter().collect::<Vec<_>>(), [0..3_000]);
}

#[test]
fn thinning_keeps_the_peak_of_every_column_and_invents_nothing_in_holes() {
    let (_, store, recorder) = recorded();
    close(recorder);
    let (archive, entry) = stream(&store);
    let request = PointsRequest { channel: 1, element: 1, range: time_of(0)..time_of(1_000), points: 20 };
    let points = archive.points(&entry, &request).unwrap();
    assert_eq!((points.columns.len(), points.column_ns, points.holes.len()), (20, 50_000_000, 2));
    for (column, found) in points.columns.iter().enumerate() {
        let samples = column as u64 * 50..(column as u64 + 1) * 50;
        let there = samples.filter(|index| !(300..350).contains(index) && !(700..710).contains(index));
        let values: Vec<f64> = there.map(|index| f64::from(element(index * PER_SAMPLE + 2))).collect();
        match found {
            None => assert!(values.is_empty()),
            Some(found) => {
                assert_eq!(found.samples, values.len() as u64);
                assert_eq!(found.min, values.iter().copied().fold(f64::INFINITY, f64::min));
                assert_eq!(found.max, values.iter().copied().fold(f64::NEG_INFINITY, f64::max));
            }
        }
    }
    for points in [0, archive::MAX_POINTS + 1] {
        assert!(archive.points(&entry, &PointsRequest { points, ..request.clone() }).is_err());
    }
    assert!(archive.points(&entry, &PointsRequest { points: archive::MAX_POINTS, ..request }).is_ok());
}

#[test]
fn exports_have_every_sample_and_tell_every_hole() {
    let (_, store, recorder) = recorded();
    close(recorder);
    let (archive, entry) = stream(&store);
    let export = Export::new(&archive, &entry.epochs[0], time_of(298)..time_of(352));
    let mut csv = Vec::new();
    let exported = export.csv(&mut csv, CsvTimes::Nanoseconds).unwrap();
    assert_eq!((exported.samples, exported.holes.len()), (4, 1));
    let csv = String::from_utf8(csv).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], "index,time_ns,current [A],pair[0] [V],pair[1] [V]");
    let scaled = f64::from(element(298 * PER_SAMPLE)).mul_add(0.5, 1.0);
    let exact = [element(298 * PER_SAMPLE + 1), element(298 * PER_SAMPLE + 2)];
    let time = time_of(298).as_nanos();
    assert_eq!(lines[1], format!("298,{time},{scaled},{},{}", exact[0], exact[1]));
    assert!(lines[3].starts_with("# hole: 50 samples from index 300") && lines[3].contains("injected 150"));
    assert_eq!(lines.len(), 6);

    let mut wav = Cursor::new(Vec::new());
    let refused = export.wav(&mut wav).unwrap_err().to_string();
    assert!(refused.contains("samples from index 300 on are missing"), "{refused}");
    let before = Export::new(&archive, &entry.epochs[0], time_of(298)..time_of(340));
    assert_eq!(before.wav(&mut wav).unwrap().samples, 2, "a hole behind the last sample is none");

    let mut npy = Cursor::new(Vec::new());
    let (exported, beside) = export.npy(&mut npy).unwrap();
    let npy = npy.into_inner();
    assert_eq!((exported.samples, npy.len()), (4, 128 + 4 * 3 * 4));
    assert!(npy.starts_with(b"\x93NUMPY\x01\x00") && npy[..128].windows(6).any(|window| window == b"(4, 3)"));
    assert_eq!(npy[128..132], element(298 * PER_SAMPLE).to_le_bytes());
    assert_eq!(beside["rows"][1]["first_index"], 350);
    assert_eq!(beside["holes"][0]["lost"]["injected"], 150);

    let mut parquet = Vec::new();
    assert_eq!(export.parquet(&mut parquet).unwrap().samples, 4);
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
}

#[test]
fn what_is_not_ours_is_refused_and_said() {
    let (_, store, recorder) = recorded();
    close(recorder);
    archive::replace(
        &*store,
        Path::new("tallycast-archive.json"),
        b"{\"format\":\"tallycast-archive\",\"version\":2}",
    )
    .unwrap();
    assert!(matches!(Archive::on(Arc::clone(&store)).err(), Some(ArchiveError::Version(2))));
    assert!(matches!(open(&store, at_ms(0)).err(), Some(ArchiveError::Version(2))));
}

#[test]
fn losses_before_the_first_and_behind_the_last_sample_are_holes_too() {
    let store: Arc<dyn Store> = Arc::new(Forgetful::default());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
    recorder.handle(at_ms(1), &Event::Gap(gap(0, 0..20, Some(Stage::Injected)))).unwrap();
    recorder.handle(at_ms(1), &Event::Gap(gap(1, 30..50, Some(Stage::Injected)))).unwrap();
    recorder.handle(at_ms(2), &Event::Block(block(20, 10))).unwrap();
    close(recorder);
    let (archive, entry) = stream(&store);
    let span = entry.epochs[0].span();
    assert_eq!((entry.epochs[0].t0, entry.epochs[0].t1), (time_of(20), time_of(30)));
    assert_eq!(span, time_of(0)..time_of(50));
    assert_eq!(drawn(&archive, &entry, 0, 50), "0..20 injected|20..30 |30..50 injected|");
}

#[test]
fn a_stream_of_which_nothing_was_stored_still_has_its_holes_and_its_time() {
    let store: Arc<dyn Store> = Arc::new(Forgetful::default());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
    recorder.tick(at_ms(500));
    assert_eq!(stream(&store).1.epochs[0].t0, time_of(0), "when the epoch began");
    recorder.handle(at_ms(501), &Event::Gap(gap(0, 10..20, Some(Stage::Injected)))).unwrap();
    close(recorder);
    let (archive, entry) = stream(&store);
    assert_eq!((entry.epochs[0].t0, entry.epochs[0].samples), (time_of(10), 0));
    let holes = archive.range(&entry, everything()).filter_map(|piece| match piece.unwrap() {
        Piece::Hole(hole) => Some(hole),
        _ => None,
    });
    assert_eq!(holes.map(|hole| hole.lost[Stage::Injected]).sum::<u64>(), 10 * PER_SAMPLE);
}

#[test]
fn a_dead_recorders_run_is_seen_to_be_unattended_and_its_absence_counted() {
    let (disk, store, recorder) = recorded();
    assert!(stream(&store).1.epochs[0].attended);
    std::mem::forget(recorder);
    disk.kill();
    let (_, entry) = stream(&store);
    assert_eq!((entry.epochs[0].state, entry.epochs[0].attended), (RecordingState::Open, false));
    // A recorder that finds no publisher: the extent of the absence is unknown.
    open(&store, at_ms(2_000)).unwrap().close(at_ms(2_001)).unwrap();
    let (_, entry) = stream(&store);
    let absences: Vec<_> = entry.epochs[0].absences().map(|gap| (gap.positions.clone(), gap.t1)).collect();
    assert_eq!(absences, [(1_000 * PER_SAMPLE..1_000 * PER_SAMPLE, None)]);
}

#[test]
fn a_gap_map_names_the_reader() {
    let store: Arc<dyn Store> = Arc::new(Forgetful::default());
    let options = Options { reader: "logger".to_owned(), ..small() };
    let run = "shot-7".parse().unwrap();
    let mut recorder = Recorder::open(Arc::clone(&store), run, options, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
    close(recorder);
    let path = format!("run=shot-7/stream=lab%2Fprobe/epoch={EPOCH}/gaps.jsonl");
    let map = GapMap::decode(&read_whole(&*store, Path::new(&path)).unwrap()).unwrap();
    assert_eq!(map.sessions.iter().map(|session| &session.reader).collect::<Vec<_>>(), ["logger"]);
}

#[test]
fn every_recorder_of_an_epoch_keeps_its_account() {
    let store: Arc<dyn Store> = Arc::new(Forgetful::default());
    for session in 0..3 {
        let mut recorder = open(&store, at_ms(0)).unwrap();
        let first = session * 200;
        recorder.handle(at_ms(0), &Event::Began(began(first))).unwrap();
        recorder.handle(at_ms(1), &Event::Block(block(first, 100))).unwrap();
        if session == 1 {
            // The same reader leaves and comes back.
            recorder.handle(at_ms(2), &Event::Began(began(first + 100))).unwrap();
            recorder.handle(at_ms(3), &Event::Block(block(first + 100, 50))).unwrap();
        }
        close(recorder);
    }
    let recording = stream(&store).1.epochs[0].clone();
    let accounts: Vec<_> = recording.earlier_accounts.iter().chain([&recording.account]).collect();
    let told = accounts.iter().map(|account| {
        let elements = &account["elements"];
        (account["session"].as_u64().unwrap(), elements["stored"].as_u64().unwrap())
    });
    let told: Vec<_> = told.collect();
    let expected = [(1, 100), (2, 100), (3, 50), (4, 100)];
    assert_eq!(told, expected.map(|(session, samples)| (session, samples * PER_SAMPLE)));
    let stored: u64 = told.iter().map(|(_, stored)| stored).sum();
    assert_eq!(stored, recording.samples * PER_SAMPLE);
}

#[test]
fn a_recording_whose_reader_left_is_cut_as_its_account_is() {
    let store: Arc<dyn Store> = Arc::new(Forgetful::default());
    let mut recorder = open(&store, at_ms(0)).unwrap();
    recorder.handle(at_ms(0), &Event::Began(began(0))).unwrap();
    recorder.handle(at_ms(1), &Event::Block(block(0, 10))).unwrap();
    let mut left = account();
    left.account.state = AccountState::Cut;
    recorder.handle(at_ms(2), &Event::Ended(left)).unwrap();
    recorder.close(at_ms(3)).unwrap();
    let recording = stream(&store).1.epochs[0].clone();
    assert_eq!(recording.state, RecordingState::Cut);
    assert_eq!(recording.account["reader"]["state"], "cut");
}

/// Returns the rows' indices as ranges, and the first samples of the holes.
fn gathered(store: &Arc<dyn Store>, indices: std::ops::Range<u64>) -> (Vec<(u64, u64)>, Vec<u64>) {
    let (archive, entry) = stream(store);
    let read = archive.samples(&entry.epochs[0], everything(), indices).unwrap();
    let rows = read.indices();
    assert_eq!(rows.len() as u64, read.rows());
    let wanted: Vec<u8> = rows.iter().flat_map(|&index| block(index, 1).data.as_bytes().to_vec()).collect();
    assert_eq!(read.data.as_bytes(), wanted, "bit for bit, in the order of the rows");
    let times: Vec<i64> = rows.iter().map(|&index| time_of(index).as_nanos()).collect();
    assert_eq!(read.times_ns(), times);
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for index in rows {
        match joined.last_mut() {
            Some(last) if last.1 == index => last.1 = index + 1,
            _ => joined.push((index, index + 1)),
        }
    }
    (joined, read.holes.iter().map(|hole| hole.first_index).collect())
}

#[test]
fn samples_are_put_together_by_index_and_never_across_a_hole() {
    let (_, store, recorder) = recorded();
    let check = || {
        assert_eq!(gathered(&store, 0..u64::MAX), (vec![(0, 300), (350, 700), (710, 1_000)], vec![300, 700]));
        assert_eq!(gathered(&store, 105..117), (vec![(105, 117)], vec![]));
        assert_eq!(gathered(&store, 299..351), (vec![(299, 300), (350, 351)], vec![300]));
        assert_eq!(gathered(&store, 310..320), (vec![], vec![300]), "inside a hole");
        assert_eq!(gathered(&store, 350..700), (vec![(350, 700)], vec![]), "between two");
        assert_eq!(gathered(&store, 1_000..2_000), (vec![], vec![]));
    };
    check();
    close(recorder);
    check();
    assert!(!compact_run(&*store, &"shot-7".parse().unwrap()).unwrap().is_empty());
    check();
}

#[test]
fn what_is_recorded_after_the_catalogue_was_read_is_not_read() {
    let (_, store, mut recorder) = recorded();
    let (archive, entry) = stream(&store);
    let recording = &entry.epochs[0];
    for first in (1_000..1_500).step_by(10).filter(|first| !(1_200..1_250).contains(first)) {
        recorder.handle(at_ms(first), &Event::Block(block(first, 10))).unwrap();
    }
    recorder.handle(at_ms(1_500), &Event::Gap(gap(7, 1_200..1_250, Some(Stage::Injected)))).unwrap();
    recorder.tick(at_ms(1_600));
    let check = || {
        let read = archive.samples(recording, everything(), 0..u64::MAX).unwrap();
        assert_eq!(read.rows(), recording.samples);
        assert_eq!(read.holes.iter().map(|hole| hole.first_index).collect::<Vec<_>>(), [300, 700]);
    };
    check();
    let (archive_now, entry_now) = stream(&store);
    assert_eq!(drawn(&archive_now, &entry_now, 1_000, 1_500), "1000..1200 |1200..1250 injected|1250..1500 |");
    close(recorder);
    check();
    compact_run(&*store, &"shot-7".parse().unwrap()).unwrap();
    check();
}

#[test]
fn segments_read_one_by_one_are_the_whole() {
    let (_, store, recorder) = recorded();
    close(recorder);
    let (archive, entry) = stream(&store);
    let recording = &entry.epochs[0];
    let segments: Vec<_> = recording.segments().collect();
    assert!(segments.len() > 2, "{segments:?}");
    let mut joined = Vec::new();
    for segment in &segments {
        let read = archive.samples(recording, everything(), segment.first_index..segment.next_index).unwrap();
        assert_eq!(read.rows(), segment.samples);
        joined.extend_from_slice(read.data.as_bytes());
    }
    assert_eq!(joined, archive.samples(recording, everything(), 0..u64::MAX).unwrap().data.as_bytes());
}

#[test]
fn several_elements_are_thinned_in_one_pass_as_one_by_one() {
    let (_, store, _recorder) = recorded();
    let (archive, entry) = stream(&store);
    let request =
        |channel, element| PointsRequest { channel, element, range: time_of(0)..time_of(1_000), points: 37 };
    let requests = [request(0, 0), request(1, 0), request(1, 1)];
    let each = archive.points_of_each(&entry, &requests).unwrap();
    let one_by_one = requests.iter().map(|request| archive.points(&entry, request).unwrap());
    assert_eq!(each, one_by_one.collect::<Vec<_>>());
    assert_ne!(each[1].columns, each[2].columns);
    let other = PointsRequest { range: time_of(0)..time_of(10), ..request(0, 0) };
    assert!(archive.points_of_each(&entry, &[request(0, 0), other]).is_err());
}
