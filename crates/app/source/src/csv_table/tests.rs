//! Small tables of every kind, and refused ones with the line of the error.

use super::*;
use crate::piece::testing::{drain, floats, plenty};
use crate::{TimeColumn, open_file};

/// Writes a table and opens it; the file exists until the first of the pair is dropped.
fn table(
    text: &str,
    options: &FileOptions,
) -> Result<(tempfile::NamedTempFile, crate::FileSource), SourceError> {
    let file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let source = open_file(file.path(), options)?;
    Ok((file, source))
}

fn at(rate: &str) -> FileOptions {
    FileOptions { rate: Some(rate.parse().unwrap()), ..FileOptions::default() }
}

fn refusal(text: &str, options: &FileOptions) -> String {
    match table(text, options) {
        Err(error) => error.to_string(),
        Ok((_file, mut source)) => drain(&mut source).unwrap_err().to_string(),
    }
}

#[test]
fn headings_units_and_values_are_read() {
    let (_file, mut source) =
        table("# a probe\ncurrent [A]; voltage (V)\n1;2.5\n-3; 4e1\n", &at("10")).unwrap();
    let channels = &source.description().schema.channels;
    assert_eq!(channels[..], [Channel::new("current", "A"), Channel::new("voltage", "V")]);
    let (bytes, holes) = drain(&mut source).unwrap();
    assert_eq!(floats(&source, &bytes), [1.0, 2.5, -3.0, 40.0]);
    assert_eq!(holes, []);
}

#[test]
fn a_time_column_gives_the_rate_the_start_and_the_holes() {
    let text = "time [ms],a\n1604102400000,1\n1604102400010,2\n1604102400020,3\n1604102400070,4\n";
    let (_file, mut source) = table(text, &FileOptions::default()).unwrap();
    let description = source.description();
    assert_eq!(description.schema.rate, "100".parse().unwrap());
    assert_eq!(description.schema.channels.len(), 1);
    let start = units::WallTime::from_nanos(1_604_102_400_000_000_000);
    assert_eq!(description.timing, Timing::Recorded { start: Some(start) });
    let (bytes, holes) = drain(&mut source).unwrap();
    assert_eq!(floats(&source, &bytes), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(holes, [(3, 4, HoleKind::Recording)]);
}

#[test]
fn the_index_of_an_export_tells_its_holes_whatever_its_times_say() {
    // The clock was set forward by two seconds behind sample 6, and nothing is missing there.
    let text = "index,time_ns,a [V]\n5,1700000000000000000,1\n6,1700000000010000000,2\n\
                7,1700000002020000000,3\n# hole: 2 samples from index 8\n10,1700000002050000000,4\n";
    let (_file, mut source) = table(text, &FileOptions::default()).unwrap();
    let schema = &source.description().schema;
    assert_eq!(schema.channels, [Channel::new("a", "V")]);
    assert_eq!(schema.rate, "100".parse().unwrap());
    let (bytes, holes) = drain(&mut source).unwrap();
    assert_eq!(floats(&source, &bytes), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(holes, [(3, 2, HoleKind::Recording)]);
}

#[test]
fn an_index_is_one_only_beside_the_times_of_an_export() {
    let names = |text: &str, options: &FileOptions| {
        let (_file, source) = table(text, options).unwrap();
        let channels = &source.description().schema.channels;
        channels.iter().map(|channel| channel.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names("index,time,a\n1,0.1,2\n2,0.2,2\n", &FileOptions::default()), ["index", "a"]);
    let text = "index,time_ns,a,channel:index\n1,10,2,3\n2,20,2,3\n";
    assert_eq!(names(text, &FileOptions::default()), ["a", "index"]);
    let asked = FileOptions { time: TimeColumn::None, ..at("10") };
    assert_eq!(names("index,time_ns,a\n1,10,2\n", &asked), ["index", "time_ns", "a"]);
}

#[test]
fn a_sample_that_was_recorded_in_part_is_left_out_whole() {
    let text = "index,time_ns,a,b\n0,0,1,\n1,10,2,3\n2,20,,4\n4,40,5,6\n5,50,7,\n";
    let (_file, mut source) = table(text, &FileOptions::default()).unwrap();
    let (bytes, holes) = drain(&mut source).unwrap();
    assert_eq!(floats(&source, &bytes), [2.0, 3.0, 5.0, 6.0]);
    let hole = |before, samples| (before, samples, HoleKind::Recording);
    assert_eq!(holes, [hole(0, 1), hole(1, 2), hole(2, 1)]);
    let allowed = FileOptions { nan: NanPolicy::Allow, ..FileOptions::default() };
    let (_file, mut source) = table(text, &allowed).unwrap();
    let (bytes, holes) = drain(&mut source).unwrap();
    assert_eq!((bytes.len(), holes), (5 * 16, vec![hole(3, 1)]));
    // Without an index it is unknown that the element never arrived.
    assert!(refusal("t,a\n0,1\n1,\n", &FileOptions::default()).contains("a value is missing"));
}

#[test]
fn columns_can_be_chosen_and_the_time_left_out() {
    let options = FileOptions { columns: vec!["b".into()], ..at("10") };
    let (_file, mut source) =
        table("t,a,b\n0,1,2\n0,3,4\n", &FileOptions { time: TimeColumn::None, ..options }).unwrap();
    let (bytes, _) = drain(&mut source).unwrap();
    assert_eq!(floats(&source, &bytes), [2.0, 4.0]);
    let missing = FileOptions { columns: vec!["c".into()], ..at("10") };
    assert!(refusal("a,b\n1,2\n", &missing).contains("the columns are a, b"));
}

#[test]
fn text_in_another_encoding_is_told_with_its_line() {
    let file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
    for (bytes, line) in [
        (&b"t [\xb5s],a\n1,2\n"[..], 1),
        (&b"a,b\n\n1,2\n3,\xe4\n"[..], 4),
        (&b"# \xfc\na,b\n1,\xe4\n"[..], 1),
        (&b"\x93\x00\xff\xfe\x00"[..], 1),
    ] {
        std::fs::write(file.path(), bytes).unwrap();
        let said = match open_file(file.path(), &at("10")) {
            Err(error) => error.to_string(),
            Ok(mut source) => drain(&mut source).unwrap_err().to_string(),
        };
        assert!(said.contains(&format!("line {line} is not UTF-8 text")), "{said}");
    }
}

#[test]
fn a_rate_that_the_times_contradict_is_refused() {
    let rows: String = (0..10).map(|row| format!("0.{row:02},{row}\n")).collect();
    let text = format!("t,a\n{rows}");
    let said = refusal(&text, &at("200"));
    assert!(said.contains("advance at 100 samples per second, not at 200"), "{said}");
    assert_eq!(table(&text, &at("101")).unwrap().1.description().schema.rate, "101".parse().unwrap());
    // A few rows, which may be around a hole, are no evidence against it.
    assert!(table("t,a\n0,1\n3,2\n", &at("200")).is_ok());
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    assert!(refusal("a,b\n1,2\n3\n", &at("1")).contains("line 3 has 1 fields, the first line has 2"));
    assert!(refusal("a,b\n1,2\n3,x\n", &at("1")).contains("line 3, column `b`: `x` is not a number"));
    assert!(refusal("1,2\n\n3,NaN\n", &at("1")).contains("line 3, column `ch1`: `NaN` is not a finite"));
    assert!(refusal("a,b\n1,\n", &at("1")).contains("line 2, column `b`: a value is missing"));
    assert!(
        refusal("t,a\n0,1\n0.1,2\n0.1,3\n", &FileOptions::default()).contains("line 4: its time is 0 ns")
    );
    assert!(refusal("t,a\n0,1\nnoon,2\n", &FileOptions::default()).contains("line 3: `noon` is not a time"));
    assert!(refusal("a,b\n1,2\n", &FileOptions::default()).contains("--rate"));
    let standing = "index,time_ns,a\n1,0,1\n2,1,2\n2,2,3\n";
    assert!(refusal(standing, &FileOptions::default()).contains("line 4: its sample index is 2, the row"));
    assert!(
        refusal("index,time_ns,a\n1,0,1\nx,1,2\n", &FileOptions::default())
            .contains("line 3: `x` is not a sample index")
    );
    assert!(refusal("time [h],a\n1,2\n", &FileOptions::default()).contains("unknown unit `h`"));
    assert!(refusal("t\n1\n", &FileOptions::default()).contains("no values"));
    assert!(refusal("a,b\n", &at("1")).contains("no line of values"));
    assert!(refusal("a,a\n1,2\n", &at("1")).contains("two channels"));
}

#[test]
fn samples_before_a_wrong_line_are_handed_over_first() {
    let (_file, mut source) = table("1\n2\nx\n", &FileOptions { dtype: Some(Dtype::U8), ..at("1") }).unwrap();
    assert_eq!(source.next(plenty()).unwrap(), Piece::Samples(&[1, 2]));
    assert!(source.next(plenty()).unwrap_err().to_string().contains("line 3"));
}

#[test]
fn nan_passes_where_it_is_allowed() {
    let (_file, mut source) = table("1\nNaN\n", &FileOptions { nan: NanPolicy::Allow, ..at("1") }).unwrap();
    let (bytes, _) = drain(&mut source).unwrap();
    assert!(floats(&source, &bytes)[1].is_nan());
}

#[test]
fn a_table_can_be_played_again() {
    let file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
    std::fs::write(file.path(), "t,a\n0,1\n1,2\n4,3\n").unwrap();
    let mut source = open_file(file.path(), &at("1")).unwrap();
    let first = drain(&mut source).unwrap();
    source.rewind().unwrap();
    assert_eq!(drain(&mut source).unwrap(), first);
    assert_eq!(first.1, [(2, 2, HoleKind::Recording)]);
}
