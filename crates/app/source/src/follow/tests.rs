//! Rows of a growing file, in whatever pieces its bytes arrive, and files that are cut off or replaced.

use std::fs::{OpenOptions, rename};
use std::io::Write;

use super::*;
use crate::numbers::NanPolicy;

const TABLE: &str = "# a run\ntime [ms],current [A],voltage (V)\n\n\
    1790000000000,0.1,2\n1790000000000.5,-3e-7,4 # odd\n1790000000001,5,6\n";

fn options() -> FollowOptions {
    FollowOptions {
        dtype: Dtype::F8,
        time: TimeColumn::Auto,
        time_unit: None,
        time_zone: Some("UTC".to_owned()),
        skip: 0,
        columns: Vec::new(),
        unit: String::new(),
        nan: NanPolicy::Refuse,
    }
}

/// Contents of a table as read.
#[derive(Default, PartialEq, Debug)]
struct Read {
    channels: Vec<(String, String)>,
    values: Vec<f64>,
    times_ns: Vec<i64>,
    refused: Vec<String>,
    /// Losses that are possible before the next row: the number of rows by then.
    away: Vec<usize>,
}

impl Read {
    fn take(&mut self, news: Vec<Followed>) {
        for it in news {
            match it {
                Followed::Rows(rows) => {
                    assert_eq!(rows.elements.len(), rows.count * rows.channels.len() * 8);
                    self.channels =
                        rows.channels.iter().map(|it| (it.name.clone(), it.unit.clone())).collect();
                    let elements = rows.elements.chunks(8);
                    self.values.extend(elements.map(|it| f64::from_le_bytes(it.try_into().unwrap())));
                    self.times_ns.extend(rows.times_ns);
                }
                Followed::Refused(why) => self.refused.push(why),
                Followed::Away(_) => self.away.push(self.values.len()),
                Followed::Back | Followed::Decided(_) => {}
            }
        }
    }
}

fn read_in(pieces: usize, text: &[u8], options: FollowOptions) -> Result<Read, FollowError> {
    let (mut tail, mut read, mut fed) = (Tail::new(options), Read::default(), 0);
    for piece in text.chunks(pieces) {
        let mut news = Vec::new();
        tail.feed(piece, &mut news)?;
        fed += piece.len() as u64;
        assert_eq!(tail.position() + tail.partial_bytes() as u64, fed);
        read.take(news);
    }
    Ok(read)
}

fn read(text: &[u8], options: FollowOptions) -> Read {
    read_in(usize::MAX, text, options).unwrap()
}

fn refusal(text: &str, options: FollowOptions) -> String {
    read_in(usize::MAX, text.as_bytes(), options).unwrap_err().to_string()
}

#[test]
fn rows_are_the_same_in_whatever_pieces_they_come() {
    for piece in [1, 2, 7, 1_000] {
        let read = read_in(piece, TABLE.as_bytes(), options()).unwrap();
        assert_eq!(read.values, [0.1, 2.0, -3e-7, 4.0, 5.0, 6.0]);
        let first = 1_790_000_000_000_000_000;
        assert_eq!(read.times_ns, [first, first + 500_000, first + 1_000_000]);
        assert_eq!(read.refused, [""; 0]);
        let channel = |name: &str, unit: &str| (name.to_owned(), unit.to_owned());
        assert_eq!(read.channels, [channel("current", "A"), channel("voltage", "V")]);
    }
}

#[test]
fn truncated_at_every_length_no_row_is_read_before_its_line_ends() {
    let whole = read(TABLE.as_bytes(), options()).values;
    for length in 1..=TABLE.len() {
        let read = read(&TABLE.as_bytes()[..length], options());
        assert_eq!(read.values, whole[..read.values.len()]);
        assert_eq!(read.refused, [""; 0]);
    }
}

#[test]
fn rows_are_laid_out_as_in_complete_files() {
    for (line, count) in [("1,2,3", 3), ("1;2,5;3", 3), ("1\t2", 2), ("1 2  3", 3), ("7", 1)] {
        assert_eq!(read(format!("{line}\n").as_bytes(), options()).values.len(), count, "{line}");
    }
    let names = |text: &str| {
        let channels = read(text.as_bytes(), options()).channels;
        channels.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(names("1 2\n"), ["channel0", "channel1"]);
    assert_eq!(names("\u{feff}time,u,w\n1,2,3\n"), ["u", "w"]);
    assert_eq!(names("time,Temp #1,Temp #2\n1,2,3\n"), ["Temp #1", "Temp #2"]);
    assert_eq!(names("time,\"Torque, Request\",w\n1,2,3\n"), ["Torque, Request", "w"]);
    assert_eq!(names("time,TC(1),TC(2)\n1,2,3\n"), ["TC(1)", "TC(2)"]);
    assert_eq!(names("A logger\nSerial,12\n\nt,u\n[ms],[V]\n1,2\n"), ["u"]);
    assert_eq!(read(b"a b\n1 2\n", FollowOptions { unit: "V".to_owned(), ..options() }).channels[1].1, "V");
    let skipped = FollowOptions { skip: 1, ..options() };
    assert_eq!(read(b"400.0,400.5\n1,2\n", skipped).values, [1.0, 2.0]);
}

#[test]
fn a_row_that_begins_with_a_value_is_one_at_once_if_its_columns_have_names() {
    let chosen = FollowOptions { columns: vec!["u".to_owned()], ..options() };
    assert_eq!(read(b"time,state,u\n0,OK,1\n", chosen).values, [1.0]);
}

#[test]
fn the_layout_is_told_once() {
    let (mut tail, mut news) = (Tail::new(options()), Vec::new());
    tail.feed(b"t [ms],u\n1,2\n", &mut news).unwrap();
    tail.feed(b"2,3\n", &mut news).unwrap();
    let said: Vec<_> = news
        .iter()
        .filter_map(|it| if let Followed::Decided(said) = it { Some(said) } else { None })
        .collect();
    let [said] = said[..] else { panic!("{news:?}") };
    assert!(said.contains("header row 1") && said.contains("milliseconds"), "{said}");
}

#[test]
fn lines_that_are_no_rows_are_refused_in_their_place() {
    let read = read(b"a,b\n1,2\n3\nx,4\n5,\n\xff,1\n6,7\n", options());
    assert_eq!(read.values, [1.0, 2.0, 6.0, 7.0]);
    let starts =
        ["line 3: 1 fields", "line 4: column `a`: `x`", "line 5: column `b`", "line 6 is not UTF-8 text"];
    assert!(read.refused.iter().zip(starts).all(|(why, start)| why.starts_with(start)), "{:?}", read.refused);
    assert_eq!(read.refused.len(), starts.len());
}

#[test]
fn a_row_is_taken_whole_or_not_at_all() {
    // Directly behind a row, with which its first value would be handed over.
    assert_eq!(read(b"a,b\n1,2\n5,\n6,7\n", options()).values, [1.0, 2.0, 6.0, 7.0]);
    let beyond = read(b"time_ns,a\n1,2\n9999999999999999999999,3\n6,7\n", options());
    assert_eq!((beyond.values, beyond.times_ns), (vec![2.0, 7.0], vec![1, 6]));
    assert!(beyond.refused[0].contains("outside the years 1677 to 2262"), "{:?}", beyond.refused);
    let read = read(b"time_ns,a\n1,2\n3,x\n4.x,5\n6,7\n", options());
    assert_eq!((read.values, read.times_ns, read.refused.len()), (vec![2.0, 7.0], vec![1, 6], 2));
}

#[test]
fn nan_passes_when_it_is_allowed() {
    let read = read(b"a,b\n1,\nnan,2\n", FollowOptions { nan: NanPolicy::Allow, ..options() });
    assert!(read.refused.is_empty() && read.values[1].is_nan() && read.values[2].is_nan());
}

#[test]
fn times_are_numbers_in_a_unit_or_dates() {
    let times = |text: &str, time_unit| {
        let named = TimeColumn::Named("at".to_owned());
        read(text.as_bytes(), FollowOptions { time: named, time_unit, ..options() }).times_ns
    };
    assert_eq!(times("at [us],a\n1.5,0\n-2,0\n", None), [1_500, -2_000]);
    assert_eq!(times("at [us],a\n1.5,0\n", TimeUnit::named("s")), [1_500_000_000]);
    let dates = "at,a\n1970-01-01T00:00:01Z,0\n1970-01-01 01:00:02.5+01:00,0\n1970-01-01T00:00:03,0\n";
    assert_eq!(times(dates, Some(TimeUnit::Iso)), [1_000_000_000, 2_500_000_000, 3_000_000_000]);
}

#[test]
fn columns_that_are_not_there_are_said() {
    for wrong in [
        FollowOptions { columns: vec!["c".to_owned()], ..options() },
        FollowOptions { time: TimeColumn::Named("c".to_owned()), ..options() },
    ] {
        assert_eq!(refusal("a,b\n1,2\n", wrong), "unknown column `c`; the columns are a, b");
    }
    assert!(refusal("time\n1\n", options()).contains("--time none"));
    assert!(refusal("t [fortnights],a\n1,2\n", options()).contains("fortnights"));
    assert!(refusal("a,a\n1,2\n", options()).contains("two columns are named `a`"));
    assert!(refusal(&"1".repeat((1 << 20) + 1), options()).contains("longer than 1 MiB"));
}

/// A file that the test writes, and its follower.
struct Scene {
    folder: tempfile::TempDir,
    follower: CsvFollower,
    read: Read,
}

impl Scene {
    fn begin(text: &str, begin: Begin) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.csv");
        std::fs::write(&path, text).unwrap();
        Self { follower: CsvFollower::new(&path, options(), begin), folder, read: Read::default() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("log.csv")
    }

    fn append(&self, text: &str) {
        let mut file = OpenOptions::new().append(true).create(true).open(self.path()).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// Reads all there is; returns the values so far.
    fn values(&mut self) -> &[f64] {
        let mut news = Vec::new();
        while self.follower.read(&mut news).unwrap() {}
        self.read.take(news);
        &self.read.values
    }
}

#[test]
fn what_is_appended_is_read_once_its_line_ends() {
    let mut scene = Scene::begin("a\n1\n2", Begin::Beginning);
    assert_eq!(scene.values(), [1.0]);
    assert_eq!(scene.follower.partial_bytes(), 1);
    scene.append("3\n");
    assert_eq!(scene.values(), [1.0, 23.0]);
}

#[test]
fn a_file_that_is_cut_off_may_have_lost_rows_also_if_it_has_grown_again() {
    for again in ["a\n7\n", "a\n7\n8\n9\n10\n11\n"] {
        let mut scene = Scene::begin("a\n1\n2\n", Begin::Beginning);
        scene.values();
        std::fs::write(scene.path(), again).unwrap();
        assert_eq!(scene.values()[..3], [1.0, 2.0, 7.0]);
        assert_eq!((scene.read.away.as_slice(), scene.follower.truncations()), (&[2][..], 1));
    }
}

#[test]
fn a_file_that_is_renamed_is_read_to_its_end_and_then_the_next() {
    let mut scene = Scene::begin("a\n1\n", Begin::Beginning);
    scene.values();
    scene.append("2\n3");
    rename(scene.path(), scene.folder.path().join("log.csv.1")).unwrap();
    assert_eq!(scene.values(), [1.0, 2.0]);
    scene.append("b\n4\n");
    assert_eq!(scene.values(), [1.0, 2.0, 4.0]);
    assert_eq!((scene.read.away.len(), scene.follower.rotations()), (0, 1));
    assert!(scene.read.refused[0].contains("incomplete"));
}

#[test]
fn rows_that_come_into_a_renamed_file_are_read_until_the_next_has_a_row() {
    let mut scene = Scene::begin("x\n1\n", Begin::Beginning);
    let mut old = OpenOptions::new().append(true).open(scene.path()).unwrap();
    scene.values();
    rename(scene.path(), scene.folder.path().join("log.csv.1")).unwrap();
    scene.append("x\n");
    assert_eq!(scene.values(), [1.0]);
    old.write_all(b"2\n3\n").unwrap();
    scene.append("4\n");
    assert_eq!(scene.values(), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!((scene.read.away.len(), scene.follower.rotations()), (0, 1));
    // A row behind the first of the next file has no place anymore: that is told.
    old.write_all(b"9\n").unwrap();
    scene.append("5\n");
    assert_eq!(scene.values(), [1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(scene.read.away, [4]);
}

#[test]
fn a_next_file_that_gives_no_layout_is_an_error() {
    let mut scene = Scene::begin("x\n1\n", Begin::Beginning);
    assert_eq!(scene.values(), [1.0]);
    rename(scene.path(), scene.folder.path().join("log.csv.1")).unwrap();
    scene.append("a,a\n1,2\n");
    let mut news = Vec::new();
    let said = loop {
        match scene.follower.read(&mut news) {
            Ok(true) => {}
            Ok(false) => panic!("the next file is waited for: {news:?}"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(said.contains("two columns are named `a`"), "{said}");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let mut follower = CsvFollower::new(folder.path(), options(), Begin::Beginning);
    let said = follower.read(&mut Vec::new()).unwrap_err().to_string();
    assert!(
        said.starts_with(&folder.path().display().to_string()) && said.contains("cannot be read"),
        "{said}"
    );
}

#[test]
fn a_mark_continues_in_the_same_file_and_is_refused_in_another() {
    let mut scene = Scene::begin("a\n1\n2\n3", Begin::Beginning);
    scene.values();
    let mark = scene.follower.mark().unwrap().unwrap();
    assert_eq!((mark.position, mark.header.as_deref()), (6, Some("a\n1")));
    for (path, expected, away) in [("log.csv", &[34.0][..], 0), ("other.csv", &[5.0], 1)] {
        scene.append("4\n");
        std::fs::write(scene.folder.path().join("other.csv"), "b\n5\n").unwrap();
        let path = scene.folder.path().join(path);
        scene.follower = CsvFollower::new(&path, options(), Begin::Mark(mark.clone()));
        scene.read = Read::default();
        assert_eq!(scene.values()[..1], *expected);
        assert_eq!(scene.read.away.len(), away);
    }
}

#[test]
fn from_now_on_earlier_rows_are_passed_over_and_the_columns_known() {
    let mut scene = Scene::begin("# log\na\n1\n2\n3", Begin::Now);
    assert!(scene.values().is_empty());
    scene.append("0\n");
    assert_eq!(scene.values(), [30.0]);
    assert_eq!(scene.read.channels[0].0, "a");
}

#[test]
fn a_file_that_is_not_there_yet_is_away() {
    let mut scene = Scene::begin("", Begin::Beginning);
    std::fs::remove_file(scene.path()).unwrap();
    assert!(scene.values().is_empty());
    assert_eq!(scene.read.away, [0]);
    scene.append("a\n1\n");
    assert_eq!(scene.values(), [1.0]);
}
