//! Alarms as a monitor lists and acknowledges them: from rows of events, without a server.

use std::path::Path;

use super::*;
use crate::clock;
use crate::scene;
use sample::{Channel, Dtype, OWN_TIMES, SampleBuffer, Schema, TIMES_LABEL};
use tallycast::{AccountState, StreamInfo};

const ALARM: &str = "lab/x/alarm";

/// Returns the stream of an alarm of two channels of `lab/x`.
fn info() -> StreamInfo {
    let mut info = scene::info(ALARM, 1);
    let unit = |name: &str| if name == "value" { "V" } else { "" };
    let channels = EVENT_CHANNELS.map(|name| Channel::new(name, unit(name))).to_vec();
    let mut schema = Schema::new(Dtype::F8, info.schema.rate, channels).unwrap();
    let labels = [
        ("node", "alarm"),
        ("input.0", "lab/x:x"),
        ("input.1", "lab/x:y"),
        ("high_warning", "10"),
        ("high_alarm", "20"),
        (TIMES_LABEL, OWN_TIMES),
    ];
    schema.labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    info.schema = Arc::new(schema);
    info
}

fn event(channel: u32, state: u8, previous: u8) -> [f64; 9] {
    let side = f64::from(u8::from(state == 1 || state == 2));
    let value = if state == UNKNOWN { f64::NAN } else { f64::from(state) * 11.0 };
    [f64::from(channel), f64::from(state), side, f64::from(previous), value, 150.0, 100.0, 0.0, 1.0]
}

fn word(change: u64, reason: &str) -> Word<'_> {
    Word { stream: ALARM, channel: 0, change, by: "user:ada", at: WallTime::from_nanos(7), reason }
}

/// Tells events to a board, each at a second of its own.
struct Told {
    alarms: Alarms,
    history: History,
    next: u64,
}

impl Told {
    fn new(path: Option<&Path>) -> Self {
        let history = History::default();
        history.begin(&Arc::new(info()), clock::now());
        history.begin(&Arc::new(scene::info("lab/x", 100)), clock::now());
        Self { alarms: Alarms::open(path.map(Path::to_owned)).unwrap(), history, next: 0 }
    }

    fn tell(&mut self, row: [f64; 9]) {
        let info = info();
        let mut block = scene::block(&info, self.next, &row);
        (block.samples, block.data) =
            (1, SampleBuffer::from_bytes(&row.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<_>>()));
        self.next += 1;
        self.alarms.block(&block);
    }

    fn list(&self) -> Vec<Alarm> {
        self.alarms.list(&self.history, |_| true)
    }

    fn acknowledge(&self, reason: &str) -> Result<(), Refusal> {
        let change = self.list().iter().find(|alarm| alarm.channel == 0).map_or(0, |alarm| alarm.change);
        self.alarms.acknowledge(&self.history, word(change, reason))
    }

    fn is_acknowledged(&self) -> bool {
        self.list().iter().any(|alarm| alarm.channel == 0 && alarm.acknowledged.is_some())
    }
}

#[test]
fn the_newest_state_of_each_channel_is_listed_worst_first() {
    let mut told = Told::new(None);
    told.tell(event(0, 1, 3));
    told.tell(event(1, 0, 3));
    assert_eq!(told.list().iter().map(|alarm| alarm.state).collect::<Vec<_>>(), [1, 0]);
    told.tell(event(1, 2, 0));
    let list = told.list();
    let [worst, other] = &list[..] else { panic!("{list:?}") };
    assert_eq!((worst.channel, worst.state, &*worst.input, &*worst.unit), (1, 2, "lab/x:y", "V"));
    assert_eq!((worst.value, worst.limit, other.limit), (Some(22.0), Some(20.0), Some(10.0)));
    // 50 samples at 100 Hz before the event.
    assert_eq!(worst.since_ns, scene::time_of(&info(), 2).as_nanos() - 500_000_000);
    assert!(told.alarms.list(&told.history, |_| false).is_empty());
}

#[test]
fn a_state_told_again_is_the_same_state() {
    let mut told = Told::new(None);
    told.tell(event(0, 2, 3));
    let before = told.list();
    let mut again = event(0, 2, 2);
    again[5] = 2_000.0;
    told.tell(again);
    let after = told.list();
    assert_eq!((before[0].change, before[0].since_ns), (after[0].change, after[0].since_ns));
}

#[test]
fn an_acknowledgement_lasts_until_another_known_state() {
    let mut told = Told::new(None);
    told.tell(event(0, 2, 3));
    told.acknowledge("pump is being repaired").unwrap();
    let list = told.list();
    let kept = list[0].acknowledged.as_ref().unwrap();
    assert_eq!((&*kept.by, kept.at_ns, &*kept.reason), ("user:ada", 7, "pump is being repaired"));
    assert_eq!(told.alarms.acknowledgements(), 1);
    // A hole: unknown is not acknowledged by that, and the alarm behind it still is.
    told.tell(event(0, 3, 2));
    assert!(!told.is_acknowledged());
    told.tell(event(0, 2, 3));
    assert!(told.is_acknowledged());
    for state in [0, 1] {
        told.tell(event(0, state, 2));
        told.tell(event(0, 2, state));
        assert!(!told.is_acknowledged(), "a new alarm after {state}");
        told.acknowledge("").unwrap();
    }
}

#[test]
fn what_was_seen_is_acknowledged_and_nothing_else() {
    let mut told = Told::new(None);
    assert!(matches!(told.acknowledge(""), Err(Refusal::Unknown)));
    told.tell(event(0, 1, 3));
    let seen = told.list()[0].change;
    told.tell(event(0, 2, 1));
    let late = told.alarms.acknowledge(&told.history, word(seen, ""));
    assert!(matches!(late, Err(Refusal::Changed)));
    told.tell(event(0, 0, 2));
    assert!(matches!(told.acknowledge(""), Err(Refusal::Ok)));
    assert_eq!(told.alarms.acknowledgements(), 0);
}

#[test]
fn a_node_that_gives_no_sign_is_unknown_and_one_that_has_ended_is_no_alarm() {
    let mut told = Told::new(None);
    told.tell(event(0, 2, 3));
    told.acknowledge("").unwrap();
    told.history.end(&scene::account(&info(), AccountState::Unconfirmed));
    assert_eq!((told.list()[0].state, told.is_acknowledged()), (UNKNOWN, false));
    told.acknowledge("its host is being repaired").unwrap();
    assert!(told.is_acknowledged());
    told.history.end(&scene::account(&info(), AccountState::Closed));
    assert!(told.list().is_empty());
    assert!(matches!(told.acknowledge(""), Err(Refusal::Unknown)));
}

#[test]
fn an_acknowledgement_survives_a_restart_and_its_end_does_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/alarms.json");
    let mut told = Told::new(Some(&path));
    told.tell(event(0, 2, 3));
    told.acknowledge("known").unwrap();
    let mut after = Told::new(Some(&path));
    assert!(after.list().is_empty());
    after.tell(event(0, 2, 3));
    assert!(after.is_acknowledged());
    assert_eq!(after.alarms.acknowledgements(), 1);
    after.tell(event(0, 0, 2));
    after.alarms.write_if_stale();
    let mut last = Told::new(Some(&path));
    last.tell(event(0, 2, 3));
    assert!(!last.is_acknowledged());
    assert_eq!(last.alarms.acknowledgements(), 1);
}

#[test]
fn what_cannot_be_kept_is_not_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state/alarms.json");
    let mut told = Told::new(Some(&path));
    told.tell(event(0, 2, 3));
    // A file where the folder is to be: no write can succeed, not even the superuser's.
    std::fs::write(folder.path().join("state"), "").unwrap();
    assert!(matches!(told.acknowledge(""), Err(Refusal::Disk(_))));
    assert!(!told.is_acknowledged());
    assert_eq!(told.alarms.acknowledgements(), 0);
}

#[test]
fn a_file_that_cannot_be_read_is_set_aside_and_alarms_can_be_acknowledged_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("alarms.json");
    for number in 1..=2 {
        std::fs::write(&path, format!("{{\"count\": {number}, \"al")).unwrap();
        let mut told = Told::new(Some(&path));
        told.tell(event(0, 2, 3));
        assert!(!told.is_acknowledged());
        told.acknowledge("known").unwrap();
        let aside = folder.path().join(format!("alarms.json.aside-{number}"));
        assert_eq!(std::fs::read_to_string(aside).unwrap(), format!("{{\"count\": {number}, \"al"));
    }
    let mut after = Told::new(Some(&path));
    after.tell(event(0, 2, 3));
    assert!(after.is_acknowledged());
}

#[test]
fn rows_that_are_no_events_are_passed_over() {
    let mut told = Told::new(None);
    for (place, value) in
        [(0, -1.0), (0, 0.5), (1, 4.0), (1, f64::NAN), (2, 2.0), (5, -1.0), (8, f64::INFINITY)]
    {
        let mut row = event(0, 2, 3);
        row[place] = value;
        told.tell(row);
    }
    assert!(told.list().is_empty());
}

#[test]
fn pages_are_woken_by_an_event_and_by_an_acknowledgement_and_share_one_list() {
    let mut told = Told::new(None);
    let mut pages = told.alarms.subscribe();
    told.tell(event(0, 2, 3));
    assert!(pages.has_changed().unwrap());
    pages.mark_unchanged();
    let seen = told.alarms.newest(&told.history);
    assert_eq!(seen[..], told.list()[..]);
    told.acknowledge("valve").unwrap();
    assert!(pages.has_changed().unwrap());
    let now = told.alarms.newest(&told.history);
    assert_eq!(now[0].acknowledged.as_ref().map(|it| &*it.reason), Some("valve"), "not the list of before");
    pages.mark_unchanged();
    told.alarms.block(&scene::block(&scene::info("lab/x", 100), 0, &[1.0]));
    assert!(!pages.has_changed().unwrap(), "other streams have no events");
}

#[test]
fn the_same_state_on_the_other_side_is_another_one() {
    let mut told = Told::new(None);
    told.tell(event(0, 2, 3));
    told.acknowledge("too high").unwrap();
    let before = told.list()[0].change;
    let mut low = event(0, 2, 2);
    low[2] = -1.0;
    told.tell(low);
    let alarm = told.list().remove(0);
    assert_eq!((alarm.side, alarm.limit, alarm.acknowledged), (-1, None, None));
    assert!(alarm.change > before);
}

#[test]
fn unknown_states_are_between_alarms_and_warnings_and_the_newer_of_two_is_first() {
    let mut told = Told::new(None);
    let listed = |told: &Told| told.list().iter().map(|it| (it.channel, it.state)).collect::<Vec<_>>();
    told.tell(event(0, 1, 3));
    told.tell(event(1, UNKNOWN, 0));
    assert_eq!(listed(&told), [(1, UNKNOWN), (0, 1)]);
    told.tell(event(0, 2, 1));
    assert_eq!(listed(&told), [(0, 2), (1, UNKNOWN)]);
    told.tell(event(1, 2, UNKNOWN));
    assert_eq!(listed(&told), [(1, 2), (0, 2)]);
}

#[test]
fn an_event_of_which_a_part_is_lost_is_none() {
    let mut told = Told::new(None);
    let events = [event(0, 2, 3), event(1, 2, 3)].concat();
    let bytes: Vec<u8> = events.iter().flat_map(|it| it.to_le_bytes()).collect();
    let mut block = scene::block(&info(), 0, &[0.0; 2]);
    block.data = SampleBuffer::from_bytes(&bytes);
    block.missing.insert(8..9);
    told.alarms.block(&block);
    assert_eq!(told.list().iter().map(|alarm| alarm.channel).collect::<Vec<_>>(), [1]);
    told.tell(event(0, 2, 3));
    assert_eq!(told.list().len(), 2);
}

#[test]
fn both_sides_of_the_number_of_alarms() {
    let mut told = Told::new(None);
    (0..=MAX_ALARMS as u32).for_each(|channel| told.tell(event(channel, 1, 3)));
    assert_eq!(told.alarms.board().rows.len(), MAX_ALARMS);
    let last = (ALARM.to_owned(), MAX_ALARMS as u32 - 1);
    told.tell(event(last.1, 2, 1));
    assert_eq!(told.alarms.board().rows[&last].event.state, 2, "those that are known still change");
}
