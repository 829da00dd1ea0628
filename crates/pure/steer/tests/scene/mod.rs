//! A device with its app, a disk, a network and a client host; every moment depends on the seed.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use access::{Policy, Principal, Reach};
use sample::{Dtype, StreamName};
use steer::{
    Answer, App, Client, Command, CommandId, Config, Declared, Done, Effect, Head, Kept, Log, Message,
    Number, Output, Parameter, Question, Record, Recovery, Reply, Seen as SeenHeads, SessionId, Standing,
    Totals, Value,
};
use units::{Epoch, Instant, Random, WallTime};

/// Points at which the app is killed.
pub(crate) const POINTS: [&str; 8] = [
    "before the intent is written",
    "after the intent is written",
    "before the effect",
    "after the effect",
    "before the outcome is written",
    "after the outcome is written",
    "before the answer",
    "after the answer",
];
const TICK: Duration = Duration::from_millis(10);
const NAMES: [&str; 2] = ["gain", "power"];
/// Number of ticks in which commands are given.
const BUSY_TICKS: u64 = 150;
/// Number of ticks after which every command must have a conclusion: questions come every 20 ticks.
const MAX_TICKS: u64 = 4_000;

/// The longest time without the app after a kill: a client waits for 300 ticks, and then gives up.
const MAX_DOWN_TICKS: u64 = 600;

/// Size from which on another segment of the log begins. Units: bytes.
const SEGMENT_BYTES: usize = 1_500;

/// The app's process was killed.
struct Killed;

/// What the scenes had in them.
#[derive(Default, Debug)]
pub(crate) struct Seen {
    pub(crate) kills: BTreeMap<&'static str, u64>,
    pub(crate) conclusions: BTreeMap<&'static str, u64>,
    pub(crate) repeated: u64,
    pub(crate) withdrawn: u64,
    pub(crate) torn: u64,
    pub(crate) gave_up: u64,
    pub(crate) segments: u64,
    pub(crate) put_back: u64,
    pub(crate) doubted: u64,
}

/// The device: it outlasts the app.
pub(crate) struct Device {
    /// Whether it keeps the command with the value, in one write.
    pub(crate) keeps: bool,
    /// Commands that had an effect, in their order.
    pub(crate) history: Vec<CommandId>,
    values: BTreeMap<String, (Value, Kept)>,
}

enum Packet {
    ToApp {
        asker: SessionId,
        message: Message,
    },
    /// From the run with this number.
    Answer(u64, CommandId, Answer),
    /// As an answer.
    Reply(u64, CommandId, Reply),
}

pub(crate) struct Scene {
    random: Random,
    tick: u64,
    run: u64,
    app: App,
    /// Difference of the app's clock from the client's.
    clock_offset: Duration,
    /// Segments of the log.
    disk: Vec<Vec<u8>>,
    head: Head,
    /// What the log says.
    logged: Recovery,
    /// Records that wait for the disk.
    unwritten: VecDeque<Record>,
    /// Records of this run on disk.
    written: u64,
    /// Commands whose intent is on disk.
    intents: BTreeSet<CommandId>,
    pub(crate) device: Device,
    pub(crate) clients: BTreeMap<CommandId, Client>,
    /// Run that each command was sent to.
    sent_to: BTreeMap<CommandId, u64>,
    /// Heads that the clients' host has read from the app's stream.
    heads: SeenHeads,
    /// Whether an earlier log may be put back while the app is down.
    puts_back: bool,
    /// Number of times that was done.
    pub(crate) put_back: u64,
    /// Commands about which a run with another log was asked.
    pub(crate) doubted: BTreeSet<CommandId>,
    session: Option<SessionId>,
    next_session: u64,
    packets: Vec<(u64, Packet)>,
    /// Kills to come: the point, and how often it is passed before.
    kills: VecDeque<(&'static str, u64)>,
    pub(crate) killed_at: Vec<&'static str>,
    /// Tick of the next start of an app that was killed.
    starts_at: Option<u64>,
    /// Tick at which the clients learn that the run has ended.
    noticed_at: Option<u64>,
    /// Commands whose client waited in vain for another run.
    pub(crate) gave_up: BTreeSet<CommandId>,
    /// Commands that were under way at a device that keeps nothing, when the app was killed.
    pub(crate) doubtful: BTreeSet<CommandId>,
    pub(crate) torn: u64,
    pub(crate) repeated: u64,
    loss: f64,
    disk_speed: f64,
}

fn app_name() -> StreamName {
    "sim/engine".parse().expect("a stream name")
}

fn parameters() -> [Parameter; 2] {
    NAMES.map(|name| Parameter { max: Some(Number::Real(9.0)), ..Parameter::new(name, Dtype::F8) })
}

const fn epoch(run: u64) -> Epoch {
    Epoch { start_ns: run, incarnation: run }
}

fn config(run: u64) -> Config {
    Config { app: app_name(), epoch: epoch(run), policy: Policy::without_file(Reach::Loopback) }
}

impl Scene {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let value = Value::scalar(0.0);
        let values = NAMES.map(|name| (name.to_owned(), (value.clone(), Kept::Unchanged))).into();
        let kill =
            |random: &mut Random| (POINTS[usize::try_from(random.below(8)).expect("eight")], random.below(6));
        let kills = (0..random.below(3)).map(|_| kill(&mut random)).collect();
        let device = Device { keeps: random.chance(0.5), history: Vec::new(), values };
        let declared = parameters().map(|parameter| Declared { parameter, value: value.clone() });
        let (loss, disk_speed) = (random.unit() * 0.4, 0.2 + random.unit() * 0.8);
        Self {
            app: App::new(config(0), declared.into()).expect("sound declarations"),
            clock_offset: TICK,
            random,
            tick: 0,
            run: 0,
            disk: vec![Vec::new()],
            head: Head::beginning(&app_name()),
            logged: Recovery::default(),
            unwritten: VecDeque::new(),
            written: 0,
            intents: BTreeSet::new(),
            device,
            clients: BTreeMap::new(),
            sent_to: BTreeMap::new(),
            heads: SeenHeads::default(),
            puts_back: false,
            put_back: 0,
            doubted: BTreeSet::new(),
            session: None,
            next_session: 0,
            packets: Vec::new(),
            kills,
            killed_at: Vec::new(),
            starts_at: None,
            noticed_at: None,
            gave_up: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            torn: 0,
            repeated: 0,
            loss,
            disk_speed,
        }
    }

    /// Makes a scene in which the log of an app that was killed may be replaced with an earlier copy.
    pub(crate) fn with_logs_put_back(seed: u64) -> Self {
        Self { puts_back: true, ..Self::new(seed) }
    }

    /// Plays until every command has a conclusion and nothing is on its way.
    pub(crate) fn play(&mut self) {
        while self.tick < MAX_TICKS {
            self.tick += 1;
            self.client_host();
            let is_up = match self.starts_at {
                None => self.app_process().map_err(|Killed| self.die()).is_ok(),
                Some(at) if at <= self.tick => {
                    self.restart();
                    false
                }
                Some(_) => {
                    self.deliver();
                    false
                }
            };
            let is_settled = self.clients.values().all(|client| client.conclusion().is_some());
            let is_quiet = is_up && self.packets.is_empty() && self.unwritten.is_empty();
            if self.tick > BUSY_TICKS && is_settled && is_quiet && self.app.totals().pending == 0 {
                break;
            }
        }
        self.repeated += self.app.totals().repeated;
    }

    pub(crate) fn totals(&self) -> Totals {
        let mut totals = *self.app.totals();
        totals.repeated = 0;
        totals
    }

    /// Returns the totals that the log alone gives.
    pub(crate) fn totals_of_log(&self) -> Totals {
        let mut recovery = Recovery::default();
        self.log().entries.iter().for_each(|entry| recovery.record(&entry.record));
        *recovery.start(config(99), self.standings()).expect("sound declarations").totals()
    }

    /// Starts the app from its log as of each of the last segments alone; returns the number of segments.
    pub(crate) fn check_checkpoints(&self) -> u64 {
        let started = |from: usize| {
            let log = Log::recover(&app_name(), &self.disk[from..]).expect("a whole log");
            let mut recovery = Recovery::default();
            log.entries.iter().for_each(|entry| recovery.record(&entry.record));
            let mut app = recovery.start(config(99), self.standings()).expect("sound declarations");
            let records: Vec<Output> = core::iter::from_fn(|| app.poll()).collect();
            let revisions = NAMES.map(|name| app.value(name).expect("it is declared").1);
            (records, revisions, *app.totals(), app.switches())
        };
        let whole = started(0);
        for from in 1..self.disk.len() {
            assert_eq!(started(from), whole, "from segment {from} on");
        }
        self.disk.len() as u64
    }

    pub(crate) fn log(&self) -> Log {
        let signed = self.head.signed(<[u8]>::to_vec);
        Log::verify(&app_name(), &self.disk, Some(&signed), |bytes, signature| bytes == signature)
            .expect("the log is whole")
    }

    fn client_now(&self) -> Instant {
        Instant::ORIGIN + TICK * u32::try_from(self.tick).expect("few ticks")
    }

    fn app_now(&self) -> Instant {
        self.client_now() + self.clock_offset
    }

    /// The client's host: connects, gives commands, asks.
    fn client_host(&mut self) {
        let now = self.client_now();
        if self.noticed_at.is_some_and(|at| at <= self.tick) {
            self.noticed_at = None;
            self.clients.values_mut().for_each(|client| client.lost(now));
        }
        // A run that only seems to have ended is asked again.
        if self.random.chance(0.002) {
            self.clients.values_mut().for_each(|client| client.lost(now));
        }
        if self.session.is_none() && self.starts_at.is_none() && self.random.chance(0.2) {
            self.next_session += 1;
            let session = SessionId(self.next_session);
            self.app.open(session, Principal::anonymous()).expect("a new session");
            self.session = Some(session);
        }
        if let Some(session) = self.session {
            if self.random.chance(0.002) {
                self.app.close(session);
                self.session = None;
            } else if self.tick < BUSY_TICKS && self.random.chance(0.15) {
                let command = self.new_command(session);
                self.sent_to.insert(command.id, self.run);
                self.clients.insert(command.id, Client::new(command));
            }
        }
        for id in self.clients.keys().copied().collect::<Vec<_>>() {
            let client = self.clients.get_mut(&id).expect("one of them");
            let is_open = client.conclusion().is_none();
            match (client.poll(now), self.session) {
                (Some(Message::Connect), Some(_)) => client.reached(now),
                (Some(Message::Connect), None) => {}
                (Some(message), Some(asker)) => {
                    self.send(|| Packet::ToApp { asker, message: message.clone() });
                }
                (Some(_), None) => client.lost(now),
                (None, _) if is_open && client.conclusion().is_some() => _ = self.gave_up.insert(id),
                (None, _) => {}
            }
        }
    }

    fn new_command(&mut self, session: SessionId) -> Command {
        let parameter = NAMES[usize::from(self.random.chance(0.3))].to_owned();
        Command {
            id: CommandId(self.clients.len() as u128),
            session,
            parameter,
            if_revision: self.random.chance(0.2).then(|| self.random.below(4)),
            value: Value::scalar(self.random.below(11) as f64),
            valid_until: self.app_now() + Duration::from_millis(self.random.below(1_990)),
            reason: "scene".to_owned(),
        }
    }

    /// Loses, repeats and delays.
    fn send(&mut self, packet: impl Fn() -> Packet) {
        let copies = 1 + u64::from(self.random.chance(0.2));
        for _ in 0..copies {
            if !self.random.chance(self.loss) {
                let delay =
                    if self.random.chance(0.05) { self.random.below(400) } else { self.random.below(8) };
                self.packets.push((self.tick + delay, packet()));
            }
        }
    }

    /// One cycle of the app's process.
    fn app_process(&mut self) -> Result<(), Killed> {
        self.deliver();
        self.app.step(self.app_now(), self.tick);
        while let Some(effect) = self.app.poll_effect() {
            self.apply(effect)?;
        }
        self.flush()
    }

    /// Delivers what is due; nothing reaches an app that was killed.
    fn deliver(&mut self) {
        let (due, later) = core::mem::take(&mut self.packets).into_iter().partition(|it| it.0 <= self.tick);
        self.packets = later;
        for (_, packet) in due {
            match packet {
                Packet::ToApp { asker, message } if self.starts_at.is_none() => self.receive(asker, message),
                Packet::ToApp { .. } => {}
                Packet::Answer(run, id, answer) => self.client(run, id).answer(answer),
                Packet::Reply(run, id, reply) => self.client(run, id).reply(reply),
            }
        }
    }

    /// Returns the client of a command that a run says something about.
    fn client(&mut self, run: u64, id: CommandId) -> &mut Client {
        let client = self.clients.get_mut(&id).expect("it asked");
        let sent_to = self.sent_to[&id];
        if run > sent_to && !self.heads.is_whole_since(epoch(sent_to)) && client.conclusion().is_none() {
            client.doubt();
            self.doubted.insert(id);
        }
        client
    }

    fn receive(&mut self, asker: SessionId, message: Message) {
        match message {
            Message::Command(command) => self.app.command(self.app_now(), command),
            Message::Question(question @ Question { id, .. }) => {
                if let Some(reply) = self.app.ask(self.app_now(), asker, &question) {
                    let run = self.run;
                    self.send(|| Packet::Reply(run, id, reply.clone()));
                }
            }
            Message::Connect => unreachable!("the client's host connects"),
        }
    }

    fn apply(&mut self, effect: Effect) -> Result<(), Killed> {
        let Effect { id, parameter, value, revision, index } = effect;
        assert!(self.intents.contains(&id), "an effect without its intent on disk");
        self.pass("before the effect")?;
        if self.random.chance(0.05) {
            self.app.done(id, Done::Failed { reason: "broken".to_owned() }).expect("it is under way");
            return Ok(());
        }
        let epoch = epoch(self.run);
        let kept = Kept::Change { id, revision, epoch, index };
        self.device.history.push(id);
        self.device.values.insert(parameter, (value.clone(), kept));
        if self.pass("after the effect").is_err() {
            if !self.device.keeps {
                self.doubtful.insert(id);
            }
            return Err(Killed);
        }
        if self.random.chance(0.9) {
            self.app.done(id, Done::Applied { readback: value }).expect("it is under way");
        } else if !self.device.keeps {
            self.app.done(id, Done::Unknown).expect("it is under way");
        } else {
            self.app.done(id, Done::Applied { readback: Value::scalar(0.5) }).expect("it is under way");
        }
        Ok(())
    }

    /// Writes what waits, and sends the answers that may leave.
    fn flush(&mut self) -> Result<(), Killed> {
        loop {
            while let Some(output) = self.app.poll() {
                match output {
                    Output::Write { record, .. } => self.unwritten.push_back(record),
                    Output::Answer { id, answer, .. } => {
                        self.pass("before the answer")?;
                        let run = self.run;
                        self.send(|| Packet::Answer(run, id, answer.clone()));
                        self.pass("after the answer")?;
                    }
                }
            }
            if self.unwritten.is_empty() || !self.random.chance(self.disk_speed) {
                return Ok(());
            }
            while let Some(record) = self.unwritten.pop_front() {
                self.write(&record)?;
            }
            self.app.written(self.written);
        }
    }

    fn last_segment(&mut self) -> &mut Vec<u8> {
        self.disk.last_mut().expect("a log has a segment")
    }

    fn write(&mut self, record: &Record) -> Result<(), Killed> {
        if self.last_segment().len() >= SEGMENT_BYTES {
            let mut head = self.head;
            let records = self.logged.checkpoint(&app_name(), head);
            let frames = records.iter().flat_map(|record| head.append(WallTime::from_nanos(0), record));
            self.disk.push(frames.collect());
            self.head = head;
        }
        let mut head = self.head;
        let frame = head.append(WallTime::from_nanos(0), record);
        let (before, after) = match record {
            Record::Intent { .. } => (Some(POINTS[0]), Some(POINTS[1])),
            Record::Outcome { .. } => (Some(POINTS[4]), Some(POINTS[5])),
            _ => (None, None),
        };
        if before.is_some_and(|point| self.pass(point).is_err()) {
            let torn = usize::try_from(self.random.below(frame.len() as u64)).expect("a small frame");
            self.last_segment().extend_from_slice(&frame[..torn]);
            self.torn += u64::from(torn > 0);
            return Err(Killed);
        }
        self.last_segment().extend_from_slice(&frame);
        self.head = head;
        self.logged.record(record);
        self.written += 1;
        if let Record::Intent { command, .. } = record {
            self.intents.insert(command.id);
        }
        after.map_or(Ok(()), |point| self.pass(point))?;
        // Published before the app is told that it is on disk.
        self.heads.published(epoch(self.run), head.mark());
        Ok(())
    }

    /// Passes a point, or is killed there.
    fn pass(&mut self, point: &'static str) -> Result<(), Killed> {
        match self.kills.front_mut() {
            Some((next, 0)) if *next == point => {
                self.kills.pop_front();
                self.killed_at.push(point);
                Err(Killed)
            }
            Some((next, count)) if *next == point => {
                *count -= 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn standings(&self) -> Vec<Standing> {
        let standing = |parameter: Parameter| {
            let (value, kept) = self.device.values[&parameter.name].clone();
            let kept = if self.device.keeps { kept } else { Kept::Nothing };
            Standing { declared: Declared { parameter, value }, kept }
        };
        parameters().into_iter().map(standing).collect()
    }

    /// Ends the app's process: it starts again at once, or after a while.
    fn die(&mut self) {
        let is_soon = self.random.chance(0.5);
        let down = if is_soon { 0 } else { self.random.below(MAX_DOWN_TICKS) };
        self.starts_at = Some(self.tick + down);
        self.noticed_at = Some(self.tick + self.random.below(50));
        self.session = None;
        if is_soon {
            self.restart();
        }
    }

    /// Replaces the log with an earlier copy of it; the device keeps its values.
    fn put_back(&mut self, log: Log) -> Log {
        let segment = self.random.below(self.disk.len() as u64);
        self.disk.truncate(usize::try_from(segment + 1).expect("few segments"));
        let whole = self.last_segment().len() as u64;
        let size = self.random.below(whole + 1);
        self.last_segment().truncate(usize::try_from(size).expect("a small segment"));
        let earlier = Log::recover(&app_name(), &self.disk).expect("a log with at most a torn end");
        self.last_segment().truncate(earlier.whole_bytes);
        self.put_back += u64::from(earlier.head != log.head);
        self.head = earlier.head;
        earlier
    }

    /// Starts the app again from its log, with another clock and without sessions.
    fn restart(&mut self) {
        self.run += 1;
        self.repeated += self.app.totals().repeated;
        let log = Log::recover(&app_name(), &self.disk).expect("a log with at most a torn end");
        self.last_segment().truncate(log.whole_bytes);
        assert_eq!(log.head, self.head, "a torn frame is no record");
        let log = if self.puts_back && self.random.chance(0.7) { self.put_back(log) } else { log };
        self.heads.began(epoch(self.run), log.head.mark());
        let mut recovery = Recovery::default();
        log.entries.iter().for_each(|entry| recovery.record(&entry.record));
        self.logged = recovery.clone();
        self.app = recovery.start(config(self.run), self.standings()).expect("sound declarations");
        self.clock_offset = Duration::from_millis(self.random.below(10_000));
        self.unwritten.clear();
        (self.written, self.session, self.starts_at) = (0, None, None);
    }
}
