//! Frames compared with their golden files and their page, and truncated at every length.

use super::testing::{Coded, NOON, assert_any_byte_may_be_wrong, assert_cut_is_refused, assert_golden};
use super::*;

const PAGE: &str = include_str!("../../../../../docs/protocol/page.md");
const COLUMNS: &str = include_str!("../../../../../docs/protocol/golden/page-columns.hex");
const POINTS: &str = include_str!("../../../../../docs/protocol/golden/page-points.hex");
const EXACT: &str = include_str!("../../../../../docs/protocol/golden/page-exact.hex");
const MEANS: &str = include_str!("../../../../../docs/protocol/golden/page-means.hex");
const RELAYED: &str = include_str!("../../../../../docs/protocol/golden/page-relayed.hex");
const UNKNOWN: &str = include_str!("../../../../../docs/protocol/golden/page-unknown.hex");

fn single(first: u32, extremes: Vec<[f32; 2]>) -> TraceShape {
    TraceShape::Columns { kept: 0, first, extremes: Extremes::Single(extremes), means: None }
}

/// A live view of ten columns of 1 ms, whose sixth and seventh are a hole of stage `injected`.
fn columns() -> ViewFrame {
    let extremes = |column: u8| match column {
        5 | 6 => [f32::NAN; 2],
        column => [-1.0 - f32::from(column), 0.5 * f32::from(column)],
    };
    let gap = PageGap {
        from: NOON.offset(5_000_000),
        to: NOON.offset(7_000_000),
        lost_elements: 25,
        cause: GapCause::Stage(Stage::Injected),
        apportioned: false,
        several_stages: false,
        inherited: None,
        first_index: 62,
        samples: 25,
    };
    let trace = TraceFrame {
        index: 0,
        state: TraceState::Ok,
        samples_per_column: 12.5,
        newest: Some((NOON.offset(9_920_000), 2.25)),
        live_memory_from: Some(NOON.offset(-60_000_000_000)),
        shape: single(0, (0..10).map(extremes).collect()),
        gaps: vec![gap],
    };
    ViewFrame {
        frame: 41,
        view: 7,
        live: true,
        thinned_further: false,
        now: NOON.offset(10_000_000),
        from: NOON,
        column_ns: 1_000_000,
        column_count: 10,
        dropped_frames: 3,
        traces: vec![trace],
    }
}

/// A paused view of two traces: points around a hole of several stages, and columns that begin late.
fn points() -> ViewFrame {
    let point = |offset_ns, value| PagePoint { offset_ns, value };
    let gap = PageGap {
        from: NOON.offset(2_777_777),
        to: NOON.offset(5_555_555),
        lost_elements: 3,
        cause: GapCause::Unsettled,
        apportioned: true,
        several_stages: true,
        inherited: None,
        first_index: 1_001,
        samples: 1,
    };
    let unexplained = PageGap { cause: GapCause::Unexplained, apportioned: false, ..gap };
    let ecg = TraceFrame {
        index: 0,
        state: TraceState::Stale,
        samples_per_column: 0.36,
        newest: Some((NOON.offset(5_555_555), f64::NAN)),
        live_memory_from: None,
        shape: TraceShape::Points(vec![
            point(-1_000, -0.125),
            point(2_777_777, f64::NAN),
            point(5_555_555, 0.75),
        ]),
        gaps: vec![gap, unexplained],
    };
    let late = TraceFrame {
        index: 1,
        state: TraceState::Ended,
        shape: single(2, vec![[1.0, 1.0], [1.0, 2.0]]),
        gaps: Vec::new(),
        ..ecg.clone()
    };
    ViewFrame { live: false, thinned_further: true, column_count: 4, traces: vec![ecg, late], ..columns() }
}

/// The live view one column later: seven columns are kept, two have values that f32 does not hold.
fn exact() -> ViewFrame {
    let mut frame = columns();
    let trace = &mut frame.traces[0];
    trace.gaps.clear();
    trace.newest = Some((NOON.offset(10_920_000), 499_654_096.601));
    let extremes = vec![[499_654_096.6, 499_654_096.601], [499_654_096.599, 499_654_096.601]];
    trace.shape = TraceShape::Columns { kept: 7, first: 8, extremes: Extremes::exact(extremes), means: None };
    ViewFrame { frame: 42, from: NOON.offset(1_000_000), now: NOON.offset(11_000_000), ..frame }
}

/// The live view with means, and a second trace whose values f32 does not hold, two of its columns kept.
fn with_means() -> ViewFrame {
    let mut frame = columns();
    let double = |extremes: [f64; 2], share: f64| {
        let mean = extremes[0] + share * (extremes[1] - extremes[0]);
        (extremes, MeanShare::of(mean, extremes))
    };
    let second = [
        double([499_654_096.6, 499_654_096.601], 0.5),
        double([499_654_096.599, 499_654_096.601], 1.0),
        double([499_654_096.6; 2], 0.0),
    ];
    let (extremes, means): (Vec<_>, Vec<_>) = second.into_iter().unzip();
    let shape =
        TraceShape::Columns { kept: 2, first: 7, extremes: Extremes::exact(extremes), means: Some(means) };
    let trace = TraceFrame { index: 1, shape, gaps: Vec::new(), ..frame.traces[0].clone() };
    if let TraceShape::Columns { extremes, means, .. } = &mut frame.traces[0].shape {
        // Each a quarter above the smallest value; that of the hole is not known.
        let share = |pair: &[f64; 2]| MeanShare::of(pair[0] + 0.25 * (pair[1] - pair[0]), *pair);
        *means = Some(extremes.to_vec().iter().map(share).collect());
    }
    frame.traces.push(trace);
    frame
}

/// The live view of a relayed stream: the hole was given up on the link, with others before it on the first bus.
fn relayed() -> ViewFrame {
    let mut frame = columns();
    let gap = &mut frame.traces[0].gaps[0];
    gap.cause = GapCause::Stage(Stage::Source);
    gap.inherited = Some(Inherited { hop: 1, outcome: Outcome::Lost(Stage::Deadline), cause: None });
    let unexplained = Some(Inherited { hop: 0, outcome: Outcome::Unexplained, cause: None });
    let earlier = PageGap { from: NOON, to: NOON.offset(1_000_000), inherited: unexplained, ..*gap };
    frame.traces[0].gaps.insert(0, earlier);
    frame
}

/// A view of an unknown stream.
fn unknown() -> ViewFrame {
    let trace = TraceFrame {
        index: 0,
        state: TraceState::Unknown,
        samples_per_column: 0.0,
        newest: None,
        live_memory_from: None,
        shape: single(0, Vec::new()),
        gaps: Vec::new(),
    };
    ViewFrame { frame: 0, dropped_frames: 0, traces: vec![trace], ..columns() }
}

#[test]
fn golden_frames_are_written_and_read_byte_for_byte() {
    let all = [
        (columns(), COLUMNS),
        (points(), POINTS),
        (exact(), EXACT),
        (with_means(), MEANS),
        (relayed(), RELAYED),
        (unknown(), UNKNOWN),
    ];
    assert_golden(&all);
    for (frame, _) in &all {
        assert_eq!(frame.encoded_bytes(), frame.encoded().len());
    }
}

#[test]
fn a_frame_addressed_to_a_page_is_the_frame_made_for_it() {
    let mut bytes = columns().encoded();
    let to = FrameAddress { frame: 7, view: 3, dropped_frames: 11 };
    ViewFrame::address(&mut bytes, to).unwrap();
    assert_eq!(bytes, ViewFrame { frame: 7, view: 3, dropped_frames: 11, ..columns() }.encoded());
    let head = size_of::<layout::Frame>();
    assert!(ViewFrame::address(&mut bytes[..head], to).is_ok());
    assert!(ViewFrame::address(&mut bytes[..head - 1], to).is_err());
}

#[test]
fn a_frame_cut_anywhere_is_refused() {
    assert_cut_is_refused(&[columns(), points(), exact(), with_means(), relayed(), unknown()]);
}

#[test]
fn any_byte_may_be_wrong_without_harm() {
    assert_any_byte_may_be_wrong(&[points(), relayed(), with_means()]);
}

#[test]
fn a_frame_holds_what_it_may_and_not_one_more() {
    let mut frame = columns();
    frame.column_count = MAX_PAGE_COLUMNS;
    frame.traces = vec![frame.traces[0].clone(); MAX_PAGE_TRACES];
    let limits = |frame: &ViewFrame| frame.encode(&mut Vec::new());
    assert_eq!(limits(&frame), Ok(()));
    frame.column_count += 1;
    assert!(limits(&frame).is_err());
    frame.column_count -= 1;
    frame.traces.push(frame.traces[0].clone());
    assert!(limits(&frame).is_err());
    frame.traces.truncate(1);
    frame.traces[0].shape = single(MAX_PAGE_COLUMNS - 1, vec![[0.0; 2]]);
    assert_eq!(limits(&frame), Ok(()));
    frame.traces[0].shape = single(MAX_PAGE_COLUMNS, vec![[0.0; 2]]);
    assert!(limits(&frame).is_err());
    let kept =
        |kept| TraceShape::Columns { kept, first: 7, extremes: Extremes::Single(Vec::new()), means: None };
    frame.traces[0].shape = kept(7);
    assert_eq!(limits(&frame), Ok(()));
    frame.traces[0].shape = kept(8);
    assert!(limits(&frame).is_err());
    frame.traces[0].shape = TraceShape::Points(Vec::new());
    let gap = frame.traces[0].gaps[0];
    frame.traces[0].gaps = vec![gap; MAX_PAGE_GAPS];
    assert_eq!(limits(&frame), Ok(()));
    frame.traces[0].gaps.push(gap);
    assert!(limits(&frame).is_err());
}

#[test]
fn what_this_version_does_not_know_is_refused() {
    let whole = columns().encoded();
    // Magic, version, kind, flags; the trace's state and mode; the gap's stage, flags, hop and outcome.
    let gap = whole.len() - size_of::<layout::Gap>();
    for place in [0, 2, 3, 15, 50, 51, gap + 24, gap + 25, gap + 26, gap + 27, gap + 28] {
        let mut bytes = whole.clone();
        bytes[place] = 0x7e;
        let error = ViewFrame::decode(&bytes).unwrap_err();
        assert!(matches!(error, PageFrameError::Unknown { .. }), "{place}: {error}");
    }
}

#[test]
fn what_follows_the_last_mean_of_a_trace_is_zero() {
    let mut bytes = with_means().encoded();
    // Three means and one unused at the end.
    let unused = bytes.len() - 2;
    assert_eq!(bytes[unused..], [0, 0]);
    bytes[unused] = 1;
    let error = ViewFrame::decode(&bytes).unwrap_err();
    assert!(matches!(error, PageFrameError::Unknown { field: "mean_shares", .. }), "{error}");
}

#[test]
fn an_earlier_hop_is_one_that_there_can_be_and_of_stage_source() {
    let whole = relayed().encoded();
    let gap = whole.len() - size_of::<layout::Gap>();
    let with = |place: usize, value: u8| {
        let mut bytes = whole.clone();
        bytes[gap + place] = value;
        ViewFrame::decode(&bytes).map(|frame| frame.traces[0].gaps[1].inherited)
    };
    let last = u8::try_from(MAX_HOPS).unwrap();
    assert_eq!(with(26, last).unwrap().unwrap().hop, last - 1);
    assert!(with(26, last + 1).is_err(), "there is none so late");
    assert!(with(26, 0).is_err(), "an outcome without a hop");
    assert!(with(24, Stage::Network.code()).is_err(), "lost on the reader's own hop");
    assert_eq!(with(27, 255).unwrap().unwrap().outcome, Outcome::Unsettled);
    assert!(with(27, 253).is_err(), "an absence is no loss");
}

#[test]
fn a_value_without_its_time_is_refused() {
    let mut bytes = unknown().encoded();
    // The trace's newest value follows the frame's 48 bytes and its own first 32.
    bytes[80..88].copy_from_slice(&1.0_f64.to_le_bytes());
    let error = ViewFrame::decode(&bytes).unwrap_err();
    assert!(matches!(error, PageFrameError::Unknown { field: "newest_value", .. }), "{error}");
}

#[test]
fn every_stage_has_its_code_in_a_gap() {
    for code in 0..=255 {
        let cause = GapCause::from_code(code);
        assert_eq!(cause.is_some(), !(25..253).contains(&code));
        assert!(cause.is_none_or(|cause| cause.code() == code));
    }
}

#[test]
fn the_page_and_the_layout_agree() {
    let layouts = [
        ("Frame", layout::Frame::FIELDS),
        ("Trace", layout::Trace::FIELDS),
        ("Column", layout::Extremes::FIELDS),
        ("Exact column", layout::ExtremesF64::FIELDS),
        ("Mean shares", layout::MeanShares::FIELDS),
        ("Point", layout::Point::FIELDS),
        ("Gap", layout::Gap::FIELDS),
        ("Picture", layout::Picture::FIELDS),
        ("Values", layout::Values::FIELDS),
        ("Row", layout::Row::FIELDS),
        ("Value", layout::Value::FIELDS),
        ("Waterfall", layout::Waterfall::FIELDS),
        ("Waterfall column", layout::WaterfallColumn::FIELDS),
    ];
    for (name, fields) in layouts {
        let heading = format!("### {name}\n");
        let (_, section) = PAGE.split_once(&heading).unwrap_or_else(|| panic!("no section {name}"));
        let section = section.split("\n#").next().unwrap();
        let rows: Vec<(usize, usize, String)> = section.lines().filter_map(row).collect();
        let fields: Vec<_> = fields.iter().map(|(at, size, name)| (*at, *size, (*name).to_owned())).collect();
        assert_eq!(rows, fields, "{name}");
    }
    for (name, value) in [
        ("traces", MAX_PAGE_TRACES),
        ("columns", MAX_PAGE_COLUMNS as usize),
        ("points", MAX_PAGE_COLUMNS as usize),
        ("gaps", MAX_PAGE_GAPS),
        ("pixels of a picture", MAX_PICTURE_PIXELS as usize),
        ("values of a row", MAX_ROW_VALUES),
        ("values of a waterfall", MAX_WATERFALL_VALUES as usize),
    ] {
        assert!(PAGE.contains(&format!("| {name} | {value} |")), "the limit of {name} is {value}");
    }
}

/// Reads a table row of offset, size and name; `None` for any other line.
fn row(line: &str) -> Option<(usize, usize, String)> {
    let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
    let offset = cells.next()?.parse().ok()?;
    let size = cells.next()?.parse().ok()?;
    Some((offset, size, cells.next()?.trim_matches('`').to_owned()))
}
