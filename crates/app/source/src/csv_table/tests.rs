//! Small tables of every kind, and refused ones with the line of the error.

use sample::Channel;

use super::*;
use crate::piece::testing::{drain, drain_timed, floats, plenty};
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
    let start = WallTime::from_nanos(1_604_102_400_000_000_000);
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
fn the_index_of_an_export_with_dates_tells_its_holes_too() {
    let text = "index,time,a [V],channel:time\n5,2026-01-01T00:00:00.000000000Z,1,7\n\
                6,2026-01-01T00:00:00.010000000Z,2,8\n9,2026-01-01T00:00:00.040000000Z,3,9\n";
    let (_file, mut source) = table(text, &FileOptions::default()).unwrap();
    let schema = source.description().schema.clone();
    assert_eq!(schema.channels, [Channel::new("a", "V"), Channel::new("time", "")]);
    assert_eq!(schema.rate, "100".parse().unwrap());
    let (bytes, holes) = drain(&mut source).unwrap();
    assert_eq!(floats(&source, &bytes), [1.0, 7.0, 2.0, 8.0, 3.0, 9.0]);
    assert_eq!(holes, [(2, 2, HoleKind::Recording)]);
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
        (&b"# \xfc\na,b\n1,\xe4\n"[..], 3),
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
    assert_eq!(table(&text, &at("100.05")).unwrap().1.description().schema.rate, "100.05".parse().unwrap());
    // A few rows, which may be around a hole, are no evidence against it.
    assert!(table("t,a\n0,1\n3,2\n", &at("200")).is_ok());
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    assert!(refusal("a,b\n1,2\n3\n", &at("1")).contains("line 3 has 1 fields, expected 2"));
    assert!(refusal("time [iso],a\nnoon,1\n", &FileOptions::default()).contains("`noon` is not a time"));
    assert!(refusal("a,b\n1,2\n3,x\n", &at("1")).contains("line 3, column `b`: `x` is not a number"));
    assert!(refusal("1,2\n\n3,NaN\n", &at("1")).contains("line 3, column `ch1`: `NaN` is not a finite"));
    assert!(refusal("a,b\n1,\n", &at("1")).contains("line 2, column `b`: a value is missing"));
    let said = refusal("t,a\n0,1\n0.1,2\n0.1,3\n", &at("10"));
    assert!(said.contains("line 4: its time is 0 ns") && said.contains("--own-times"), "{said}");
    assert!(refusal("t,a\n0,1\nnoon,2\n", &FileOptions::default()).contains("line 3: `noon` is not a time"));
    assert!(refusal("a,b\n1,2\n", &FileOptions::default()).contains("--rate"));
    let standing = "index,time_ns,a\n1,0,1\n2,1,2\n2,2,3\n";
    assert!(refusal(standing, &FileOptions::default()).contains("line 4: its sample index is 2, the row"));
    assert!(
        refusal("index,time_ns,a\n1,0,1\nx,1,2\n", &FileOptions::default())
            .contains("line 3: `x` is not a sample index")
    );
    let weeks = refusal("time [weeks],a\n1,2\n", &FileOptions::default());
    assert!(weeks.contains("unknown unit `weeks`") && weeks.contains("--time-unit"), "{weeks}");
    assert!(refusal("t\n1\n", &FileOptions::default()).contains("no values"));
    assert!(refusal("a,b\n", &at("1")).contains("no line of values"));
    assert!(refusal("a,a\n1,2\n", &at("1")).contains("two channels"));
    // A date beyond the last column is no column.
    assert!(refusal("state\nOL,2026-01-01 00:00:00\n", &at("1")).contains("line 2 has 2 fields, expected 1"));
    assert!(refusal("XInc: inf\nData,\n0.25\n", &FileOptions::default()).contains("set it with --rate"));
}

#[test]
fn samples_before_a_wrong_line_are_handed_over_first() {
    let (_file, mut source) = table("1\n2\nx\n", &FileOptions { dtype: Some(Dtype::U8), ..at("1") }).unwrap();
    assert_eq!(source.next(plenty()).unwrap(), Piece::Samples(&[1, 2]));
    assert!(source.next(plenty()).unwrap_err().to_string().contains("line 3"));
    let text = "a,b\n1,2\n3,x\n5,6\n";
    let (_file, mut source) = table(text, &FileOptions { dtype: Some(Dtype::U8), ..at("1") }).unwrap();
    assert_eq!(source.next(plenty()).unwrap(), Piece::Samples(&[1, 2]));
    assert!(source.next(plenty()).is_err());
    assert_eq!(source.next(plenty()).unwrap(), Piece::Samples(&[5, 6]), "nothing of the wrong line is left");
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

#[test]
fn a_table_that_was_replaced_is_not_played_again() {
    let file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
    std::fs::write(file.path(), "t,a\n0,1\n1,2\n").unwrap();
    let mut source = open_file(file.path(), &FileOptions::default()).unwrap();
    drain(&mut source).unwrap();
    // Other rows below the same header row are read anew, with the decimal sign that they have.
    std::fs::write(file.path(), "t,a\n0,1\n1,2.5\n").unwrap();
    source.rewind().unwrap();
    drain(&mut source).unwrap();
    std::fs::write(file.path(), "t,a\n0,1\n1,\"3,5\"\n").unwrap();
    source.rewind().unwrap();
    let (bytes, _) = drain(&mut source).unwrap();
    assert_eq!(floats(&source, &bytes), [1.0, 3.5]);
    std::fs::write(file.path(), "t,b\n0,1\n1,2\n").unwrap();
    let said = source.rewind().unwrap_err().to_string();
    assert!(said.contains("the file has changed"), "{said}");
}

#[test]
fn irregular_times_are_kept_and_all_if_that_is_asked_for() {
    let text = "when,a\n2026-01-01T00:00:00Z,1\n2026-01-01T00:00:01.000000001Z,2\n\
                2026-01-01T00:00:01.25Z,3\n2026-01-01T00:00:04Z,4\n";
    let (_file, mut source) = table(text, &FileOptions::default()).unwrap();
    assert_eq!(source.description().schema.rate, rate("0.75"));
    assert!(source.decided().unwrap().ends_with("every row keeps its own time, the rate is only a hint"));
    let start = 1_767_225_600_000_000_000;
    let times = [0, 1_000_000_001, 1_250_000_000, 4_000_000_000].map(|at| start + at).to_vec();
    for _ in 0..2 {
        let (bytes, kept, holes) = drain_timed(&mut source).unwrap();
        assert_eq!((floats(&source, &bytes), kept, holes), (vec![1.0, 2.0, 3.0, 4.0], times.clone(), vec![]));
        source.rewind().unwrap();
    }
    let asked = FileOptions { own_times: true, ..FileOptions::default() };
    let (_file, mut source) = table("index,time_ns,a\n3,0,1\n4,10,2\n7,45,3\n", &asked).unwrap();
    let (_, kept, holes) = drain_timed(&mut source).unwrap();
    assert_eq!((kept, holes), (vec![0, 10, 45], vec![(2, 2, HoleKind::Recording)]));
    let said = refusal("t,a\n0,1\n2,2\n1.5,3\n", &asked);
    assert!(said.contains("line 4: its time is 500000000 ns before that of the row before"), "{said}");
    assert!(refusal("a\n1\n", &FileOptions { own_times: true, ..at("1") }).contains("no times to keep"));
    let scope = "Revision,0\nXInc,5E-10\nData,\n0.25\n-0.5\n";
    assert!(refusal(scope, &asked).contains("no times to keep"));
}

/// Returns the channels by name and unit, the values and the rate of a table.
type Played = (Vec<(String, String)>, Vec<f64>, units::SampleRate);

fn play(text: &str, options: &FileOptions) -> Result<Played, SourceError> {
    let (_file, mut source) = table(text, options)?;
    let schema = source.description().schema.clone();
    let (bytes, _) = drain(&mut source)?;
    let channels = schema.channels.iter().map(|it| (it.name.clone(), it.unit.clone())).collect();
    Ok((channels, floats(&source, &bytes), schema.rate))
}

fn in_utc() -> FileOptions {
    FileOptions { time_zone: Some("UTC".to_owned()), ..FileOptions::default() }
}

fn channels(named: &[(&str, &str)]) -> Vec<(String, String)> {
    named.iter().map(|(name, unit)| ((*name).to_owned(), (*unit).to_owned())).collect()
}

fn rate(text: &str) -> units::SampleRate {
    text.parse().unwrap()
}

fn decided(text: &str, options: &FileOptions) -> String {
    table(text, options).unwrap().1.decided().expect("it is a CSV file")
}

#[test]
fn a_header_block_a_row_of_units_and_a_delimiter_at_the_end_are_passed_over() {
    let text = "Data logger 7\nSerial,1234\nStarted,2026-01-01 00:00:00\n\n\
                Time,Torque,Speed,\ns,Nm,1/min,\n0.00,1.5,2,\n0.01,2.5,3,\n";
    let (names, values, hertz) = play(text, &FileOptions::default()).unwrap();
    assert_eq!(names, channels(&[("Torque", "Nm"), ("Speed", "1/min")]));
    assert_eq!((values, hertz), (vec![1.5, 2.0, 2.5, 3.0], rate("100")));
    let said = decided(text, &FileOptions::default());
    for part in ["commas", "header row 5", "units in row 6", "values from row 7", "`Time`", "seconds"] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn dates_times_and_decimal_commas_of_european_loggers_are_read() {
    let text = "Datum;Uhrzeit;Druck [bar];Temp (°C)\n\
                26.11.2026;12:00:00,0;1,5;20,25\n26.11.2026;12:00:00,5;-2,5;20,5\n";
    let (names, values, hertz) = play(text, &in_utc()).unwrap();
    assert_eq!(names, channels(&[("Druck", "bar"), ("Temp", "°C")]));
    assert_eq!((values, hertz), (vec![1.5, 20.25, -2.5, 20.5], rate("2")));
    let (_file, source) = table(text, &in_utc()).unwrap();
    let noon = WallTime::from_nanos(1_795_694_400_000_000_000);
    assert_eq!(source.description().timing, Timing::Recorded { start: Some(noon) });
    assert!(source.decided().unwrap().contains("`Datum` and `Uhrzeit`: local times of UTC"));
}

#[test]
fn local_times_are_those_of_the_named_zone() {
    let text = "when,a\n2026-06-01 12:00:00,1\n2026-06-01 12:00:01,2\n";
    let start = |zone: &str| {
        let options = FileOptions { time_zone: Some(zone.to_owned()), ..FileOptions::default() };
        match table(text, &options).unwrap().1.description().timing {
            Timing::Recorded { start: Some(start) } => start.as_nanos(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(start("UTC") - start("CET-1CEST,M3.5.0,M10.5.0/3"), 7_200_000_000_000);
    assert!(
        refusal(text, &FileOptions { time_zone: Some("Berlin".to_owned()), ..FileOptions::default() })
            .contains("unknown time zone `Berlin`")
    );
}

#[test]
fn runs_of_blanks_separate_and_comments_are_left_out() {
    let text = "# by a spectrometer\n  t   u   w\n  0.0  1  2\n# paused\n  0.1 -1  2.5 # odd\n";
    let (names, values, hertz) = play(text, &FileOptions::default()).unwrap();
    assert_eq!(names, channels(&[("u", ""), ("w", "")]));
    assert_eq!((values, hertz), (vec![1.0, 2.0, -1.0, 2.5], rate("10")));
}

#[test]
fn marks_quotes_and_lines_of_blanks_are_read_as_other_programs_do() {
    let rows = |separator: char| -> String {
        (0..5).map(|row| format!("0.0{row}{separator}{row}{separator}7\n")).collect()
    };
    let text = format!("\u{feff}# by X, site 2, a, b, c\ntime;u;w\n{}", rows(';'));
    assert_eq!(play(&text, &FileOptions::default()).unwrap().0, channels(&[("u", ""), ("w", "")]));
    let text = format!("\"time\";\"u, V, rms\";\"w, x\"\n{}", rows(';'));
    assert_eq!(play(&text, &FileOptions::default()).unwrap().0, channels(&[("u, V, rms", ""), ("w, x", "")]));
    let text = format!("time,u,w\n{}   \n", rows(','));
    assert_eq!(play(&text, &FileOptions::default()).unwrap().1.len(), 10);
}

#[test]
fn the_unit_of_times_is_told_by_name_size_or_option() {
    let text = |name: &str, first: i64, step: i64| -> String {
        let rows = (0..10).map(|row| format!("{},{row}\n", first + row * step));
        format!("{name},u\n{}", rows.collect::<String>())
    };
    let asked = |unit| FileOptions { time_unit: Some(unit), ..FileOptions::default() };
    for (text, options) in [
        (text("timestamp", 1_700_000_000_000, 10), FileOptions::default()),
        (text("time", 1_700_000_000_000_000, 10_000), FileOptions::default()),
        (text("time", 1_700_000_000_000_000_000, 10_000_000), FileOptions::default()),
        (text("time_ms", 0, 10), FileOptions::default()),
        (
            text("tick_ms", 0, 10),
            FileOptions { time: TimeColumn::Named("tick_ms".to_owned()), ..FileOptions::default() },
        ),
        (text("time", 0, 10), asked(crate::TimeUnit::Nanos(1_000_000))),
        (text("time [s]", 0, 10_000), asked(crate::TimeUnit::Nanos(1_000))),
    ] {
        assert_eq!(play(&text, &options).unwrap().2, rate("100"), "{text}");
    }
    let said = refusal(&text("time", 20_000_000_000, 10), &FileOptions::default());
    assert!(said.contains("line 2") && said.contains("2262") && said.contains("--time-unit"), "{said}");
}

#[test]
fn a_header_row_is_one_of_words_and_the_reading_is_said() {
    let text = "400.0,400.5\n1,2\n3,4\n";
    assert_eq!(play(text, &at("10")).unwrap().1.len(), 6);
    assert!(decided(text, &at("10")).contains("no header row"));
    let skipped = FileOptions { skip: 1, ..at("10") };
    assert_eq!(play(text, &skipped).unwrap().1, [1.0, 2.0, 3.0, 4.0]);
    let said = refusal("OL,1,2\n0,1,2\n", &at("10"));
    assert!(
        said.contains("line 1, column `ch0`: `OL` is not a number") && said.contains("--skip 1"),
        "{said}"
    );
    assert_eq!(play("time,400,401\n0,1,2\n1,1,2\n", &FileOptions::default()).unwrap().0[1].0, "401");
    let said = refusal("a,b,c\n1,2\n3,4\n", &at("10"));
    assert!(said.contains("line 2 has 2 fields, expected 3 as in the header row, line 1"), "{said}");
}

#[test]
fn a_comma_that_may_be_a_decimal_sign_is_not_guessed() {
    let said = refusal("pressure\n1,5\n2,5\n", &at("10"));
    assert!(said.contains("line 2: it is open whether the comma"), "{said}");
    let skipped = FileOptions { skip: 1, ..at("10") };
    assert_eq!(play("A title\n1,5\n2,5\n", &skipped).unwrap().1, [1.0, 5.0, 2.0, 5.0]);
}

#[test]
fn equal_names_keep_their_brackets_and_can_be_replaced() {
    let names =
        |head: &str, options: &FileOptions| play(&format!("{head}\n0\t1\t2\n1\t2\t3\n"), options).unwrap().0;
    let auto = FileOptions::default();
    assert_eq!(names("time\tV(out)\tV(n001)", &auto), channels(&[("V(out)", ""), ("V(n001)", "")]));
    assert_eq!(names("time\tTemp (C)\tTemp (F)", &auto), channels(&[("Temp (C)", "C"), ("Temp (F)", "F")]));
    let renamed = FileOptions { channel_names: vec!["x".to_owned(), "y".to_owned()], ..auto };
    assert_eq!(names("time\tu\tu", &renamed), channels(&[("x", ""), ("y", "")]));
}

#[test]
fn columns_of_text_can_be_left_out() {
    let text = "time,state,u\n0,OK,1\n1,OK,2\n";
    let chosen = FileOptions { columns: vec!["u".to_owned()], ..FileOptions::default() };
    assert_eq!(play(text, &chosen).unwrap().1, [1.0, 2.0]);
    assert!(refusal(text, &FileOptions::default()).contains("column `state`: `OK` is not a number"));
}

#[test]
fn a_campbell_logger_is_recognised() {
    let text = "\"TOA5\",\"Mast\",\"CR1000X\",\"12345\",\"CR1000X.Std.05\",\"CPU:mast.CR1X\",\"4321\",\"Table10\"\r\n\
                \"TIMESTAMP\",\"RECORD\",\"AirTC_Avg\",\"RH\"\r\n\"TS\",\"RN\",\"Deg C\",\"%\"\r\n\"\",\"\",\"Avg\",\"Smp\"\r\n\
                \"2026-11-26 00:10:00\",17,21.5,68.25\r\n\"2026-11-26 00:20:00\",18,21.25,67\r\n\"2026-11-26 00:30:00\",19,\"NAN\",66\r\n";
    let options = FileOptions { nan: NanPolicy::Allow, ..in_utc() };
    let (names, values, hertz) = play(text, &options).unwrap();
    assert_eq!(names, channels(&[("AirTC_Avg", "Deg C"), ("RH", "%")]));
    assert_eq!((&values[..4], hertz), (&[21.5, 68.25, 21.25, 67.0][..], rate("1/600")));
    assert!(values[4].is_nan());
    assert!(refusal(text, &in_utc()).contains("line 7, column `AirTC_Avg`: `NAN` is not a finite number"));
    let said = decided(text, &in_utc());
    assert!(
        said.contains("TOA5") && said.contains("local times of UTC") && said.contains("without RECORD"),
        "{said}"
    );
}

#[test]
fn oscilloscopes_of_tektronix_are_recognised() {
    let old: String = [
        "Record Length,2.500000e+03",
        "Sample Interval,4.000000e-06",
        "Trigger Point,1.25e+03",
        ",",
        ",",
        ",",
        "Source,CH2",
        "Vertical Units,V",
        "Vertical Scale,2e-01",
        "Vertical Offset,0",
        "Horizontal Units,s",
        "Horizontal Scale,1e-03",
        "Pt Fmt,Y",
        "Yzero,0",
        "Probe Atten,1",
        "Model Number,TDS2014",
        "Serial Number,C0",
        "Firmware Version,FV:v16.16",
        ",",
        ",",
    ]
    .iter()
    .enumerate()
    .map(|(row, setting)| {
        format!("{setting},,{:.10},   0.0{row:02},\n", f64::from(u32::try_from(row).unwrap()) * 4e-6 - 5e-3)
    })
    .collect();
    let (names, values, hertz) = play(&old, &FileOptions::default()).unwrap();
    assert_eq!((names, values.len(), hertz), (channels(&[("CH2", "V")]), 20, rate("250k")));
    assert_eq!(values[19], 0.019);
    let new = "Model,MSO4034\nFirmware Version,2.68\n\nWaveform Type,ANALOG\nPoint Format,Y\nHorizontal Units,s\n\
               Sample Interval,4e-08\nRecord Length,3\nProbe Attenuation,10\nVertical Units,V\nVertical Offset,0\n,\n,\n\
               Label,\nTIME,CH1\n-4.0e-08,0.04\n0,0.08\n4.0e-08,0.12\n";
    let (names, values, hertz) = play(new, &FileOptions::default()).unwrap();
    assert_eq!((names, values, hertz), (channels(&[("CH1", "V")]), vec![0.04, 0.08, 0.12], rate("25M")));
    assert!(decided(new, &FileOptions::default()).contains("Tektronix"));
}

#[test]
fn oscilloscopes_of_keysight_and_lecroy_are_recognised() {
    let text =
        "x-axis,1,2\nsecond,Volt,Volt\n-1.000E-03,+0.0E+00,-402.0E-06\n-995.0E-06,-80.0E-03,+1.5E-03\n";
    let (names, values, hertz) = play(text, &FileOptions::default()).unwrap();
    assert_eq!(names, channels(&[("1", "Volt"), ("2", "Volt")]));
    assert_eq!((values, hertz), (vec![0.0, -402e-6, -0.08, 1.5e-3], rate("200k")));
    let text = "Revision,0\nType,raw\nPoints,2\nXOrg,-1E-06\nXInc,5E-10\nXUnits,second\nData,\n0.25\n-0.5\n";
    let (_, values, hertz) = play(text, &FileOptions::default()).unwrap();
    assert_eq!((values, hertz), (vec![0.25, -0.5], rate("2000M")));
    let text = "LECROYWaveRunner\u{2018}N,20113,Waveform\nSegments,1,SegmentSize,3\nSegment,TrigTime,TimeSinceSegment1\n\
                #1,14-May-2019 13:29:30,0                 \nTime,Ampl\n-1e-06,0.1\n0,0.2\n1e-06,0.3\n";
    let (names, values, hertz) = play(text, &FileOptions::default()).unwrap();
    assert_eq!((names, values, hertz), (channels(&[("Ampl", "")]), vec![0.1, 0.2, 0.3], rate("1M")));
    let several = text.replace("Segments,1", "Segments,1000");
    assert!(refusal(&several, &FileOptions::default()).contains("1000 segments"));
}

#[test]
fn oscilloscopes_of_rigol_are_recognised() {
    let text = "X,CH1,CH2,Start,Increment,\nSequence,Volt,Volt,-1.2e-03,2.000000e-06\n0,4.72e+01,2.40e+00,\n1,4.64e+01,3.20e+00,\n3,1,2,\n";
    let (_file, mut source) = table(text, &FileOptions::default()).unwrap();
    let schema = source.description().schema.clone();
    assert_eq!(schema.channels, [Channel::new("CH1", "Volt"), Channel::new("CH2", "Volt")]);
    assert_eq!(schema.rate, rate("500k"));
    let (bytes, holes) = drain(&mut source).unwrap();
    assert_eq!(floats(&source, &bytes), [47.2, 2.4, 46.4, 3.2, 1.0, 2.0]);
    assert_eq!(holes, [(2, 1, HoleKind::Recording)]);
    let text = "CH1(V),t0 = -25s, tInc = 2e-06s,\n0.5,\n1.5,\n";
    let (names, values, hertz) = play(text, &FileOptions::default()).unwrap();
    assert_eq!((names, values, hertz), (channels(&[("CH1", "V")]), vec![0.5, 1.5], rate("500k")));
    assert!(refusal(text, &at("400k")).contains("not at"));
    let text = "Time(s),CH1(V)\n0,1\n1e-3,2\n";
    assert_eq!(play(text, &FileOptions::default()).unwrap().0, channels(&[("CH1", "V")]));
}
