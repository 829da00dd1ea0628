//! Receiving end: reports its state, takes the rest, and keeps complete files.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use blake3::Hasher;

use crate::entry::{Entry, Kind};
use crate::failure::Failure;
use crate::frame::{Answer, Frame, FromReceiver, FromSender, LISTED_TOGETHER, PIECE_BYTES};
use crate::line::Line;
use crate::listing::MAX_ENTRIES;
use crate::opening::Opening;
use crate::outcome::{Notice, Outcome, Tally};
use crate::patience::Pulse;
use crate::store::{InPlace, Part, Store};

/// Interval of `busy` messages to a sender that waits for answers: several within any time limit that a person would
/// set.
const BUSY_EVERY: Duration = if cfg!(test) { Duration::ZERO } else { Duration::from_millis(500) };
/// Interval at which a wait for the disk is interrupted to tell the sender that this end is busy.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Target of received files.
#[derive(Debug)]
pub enum Whereto {
    /// A directory.
    Directory(Store),
    /// None: files are verified and discarded, for measuring.
    Nowhere,
}

/// Receiver of files from senders, over one connection at a time or several.
#[derive(Debug)]
pub struct Receiver {
    whereto: Whereto,
}

/// Work of one connection.
struct Session<'s, C> {
    whereto: &'s Whereto,
    line: Line<'s, C>,
    notice: &'s mut dyn FnMut(Notice<'_>),
    tally: &'s mut Tally,
    awaited: Vec<Awaited>,
    current: Option<Current<'s>>,
    /// Time of the last `busy` message, if the sender understands it.
    told: Option<Instant>,
}

/// Entry that was offered.
struct Awaited {
    entry: Entry,
    /// Size of the existing part and its hash, up to the point from which it may continue.
    has: Option<(u64, Hasher)>,
    is_in_place: bool,
    is_over: bool,
}

/// File that is arriving now.
struct Current<'s> {
    index: usize,
    part: Option<Part<'s>>,
    hasher: Hasher,
    bytes: u64,
    /// Reason why it is refused; its data are dropped.
    refused: Option<String>,
}

impl Receiver {
    /// Creates a receiver.
    #[must_use]
    pub const fn new(whereto: Whereto) -> Self {
        Self { whereto }
    }

    /// Receives the files of one connection; `tally` has its account at the end. Reads of the connection must time
    /// out now and then, so that `stop` is checked.
    ///
    /// # Errors
    /// [`Failure`]; complete files stay, and partial ones are continued later.
    pub fn receive<C>(
        &self,
        connection: &C,
        stop: &(dyn Fn() -> bool + Sync),
        tally: &mut Tally,
        notice: &mut dyn FnMut(Notice<'_>),
    ) -> Result<(), Failure>
    where
        for<'c> &'c C: Read + Write,
    {
        self.receive_opened(Opening::hear(connection, stop)?, connection, stop, tally, notice)
    }

    /// Receives as [`receive`](Self::receive) does, of a connection whose first message was heard.
    ///
    /// # Errors
    /// As for [`receive`](Self::receive).
    pub fn receive_opened<C>(
        &self,
        opening: Opening,
        connection: &C,
        stop: &(dyn Fn() -> bool + Sync),
        tally: &mut Tally,
        notice: &mut dyn FnMut(Notice<'_>),
    ) -> Result<(), Failure>
    where
        for<'c> &'c C: Read + Write,
    {
        let pulse = Pulse::new(None);
        let line = Line { connection, stop, pulse: &pulse };
        let (awaited, current) = (Vec::new(), None);
        let mut session =
            Session { whereto: &self.whereto, line, notice, tally, awaited, current, told: None };
        session.run(opening).inspect_err(|failure| line.refuse(failure))
    }
}

impl<'s, C> Session<'s, C>
where
    for<'c> &'c C: Read + Write,
{
    fn run(&mut self, opening: Opening) -> Result<(), Failure> {
        let mut body = Vec::with_capacity(PIECE_BYTES + 64);
        self.greet(opening)?;
        let entries = self.hear_list(&mut body)?;
        let bytes = entries.iter().map(|entry| entry.bytes).sum();
        entries.iter().for_each(|entry| self.tally.offer(entry.bytes));
        (self.notice)(Notice::Listed { entries: entries.len() as u64, bytes });
        let answers = self.look_at(entries)?;
        self.look_for_room()?;
        for answers in answers.chunks(LISTED_TOGETHER) {
            self.line.say(&FromReceiver::Answers { answers: answers.to_vec() })?;
        }
        loop {
            match self.hear(&mut body)? {
                Frame::Data => self.take_data(&body)?,
                Frame::Word(FromSender::Start { index, from }) => self.start(index, from)?,
                Frame::Word(FromSender::End { index, blake3 }) => self.end(index, &blake3)?,
                Frame::Word(FromSender::Same { index }) => self.same(index)?,
                Frame::Word(FromSender::Skip { index, reason }) => self.skip(index, reason)?,
                Frame::Word(FromSender::Fail { reason }) => return Err(Failure::Peer(reason)),
                Frame::Word(FromSender::Done) => return self.finish(),
                Frame::Word(word) => return Err(Failure::protocol(format!("{word:?} after the list"))),
            }
        }
    }

    fn greet(&mut self, Opening(word): Opening) -> Result<(), Failure> {
        match word {
            // Its protocol and version were checked when it was heard.
            FromSender::Hello { hears_busy, .. } => {
                self.told = hears_busy.then(Instant::now);
                Ok(())
            }
            _ => Err(Failure::protocol("it does not greet")),
        }
    }

    fn hear_list(&self, body: &mut Vec<u8>) -> Result<Vec<Entry>, Failure> {
        let mut all: Vec<Entry> = Vec::new();
        let mut sum = 0_u64;
        loop {
            let FromSender::Entries { entries, last } = self.line.hear_word(body)? else {
                return Err(Failure::protocol("unexpected message instead of the list"));
            };
            if all.len() + entries.len() > MAX_ENTRIES {
                return Err(Failure::protocol(format!("more than {MAX_ENTRIES} entries")));
            }
            for entry in &entries {
                let is_odd = entry.kind == Kind::Directory && entry.bytes > 0;
                sum = sum.checked_add(entry.bytes).filter(|_| !is_odd).ok_or_else(|| {
                    Failure::protocol(format!("an impossible size of {} bytes", entry.bytes))
                })?;
            }
            all.extend(entries);
            if last {
                return Ok(all);
            }
        }
    }

    /// Waits for the next frame, and gives up if a newer connection transfers the current file.
    fn hear(&self, body: &mut Vec<u8>) -> Result<Frame<FromSender>, Failure> {
        let Some(part) = self.current.as_ref().and_then(|current| current.part.as_ref()) else {
            return self.line.hear(body);
        };
        // Checked together with the stop request: whenever nothing arrives for a while.
        let stops = || part.is_taken_over() || (self.line.stop)();
        let heard = Line { stop: &stops, ..self.line }.hear(body);
        if part.is_taken_over() { Err(Failure::TakenOver) } else { heard }
    }

    /// Returns the state of each entry.
    fn look_at(&mut self, entries: Vec<Entry>) -> Result<Vec<Answer>, Failure> {
        let mut names = BTreeSet::new();
        let mut answers = Vec::with_capacity(entries.len());
        for entry in entries {
            let is_twice = !names.insert(entry.path.clone());
            let mut awaited = Awaited { entry, has: None, is_in_place: false, is_over: false };
            let answer = if is_twice {
                Answer::Refuses { reason: "it is in the list twice".to_owned() }
            } else {
                self.look_at_one(&mut awaited)?
            };
            if let Answer::Refuses { reason } = &answer {
                awaited.is_over = true;
                self.count(&awaited.entry, &Outcome::Refused(reason.clone()));
            }
            self.awaited.push(awaited);
            answers.push(answer);
            self.tell_busy()?;
        }
        Ok(answers)
    }

    fn look_at_one(&mut self, awaited: &mut Awaited) -> Result<Answer, Failure> {
        let entry = awaited.entry.clone();
        let parts = match entry.parts() {
            Ok(parts) => parts,
            Err(error) => return Ok(Answer::Refuses { reason: error.to_string() }),
        };
        let Whereto::Directory(store) = self.whereto else { return Ok(Answer::Nothing) };
        let refuses = |reason: &str| Ok(Answer::Refuses { reason: reason.to_owned() });
        match store.in_place(&parts).map_err(|error| failure(store, &entry, error))? {
            InPlace::Other(reason) => return refuses(&reason),
            InPlace::Directory if entry.kind == Kind::File => return refuses("a directory is in its place"),
            InPlace::Directory => {
                awaited.is_in_place = true;
                return Ok(Answer::IsThere { blake3: Kind::empty_hash(), may_be_replaced: false });
            }
            InPlace::File(_) if entry.kind == Kind::Directory => return refuses("a file is in its place"),
            InPlace::File(file) => {
                let bytes = file.metadata().map_err(|error| failure(store, &entry, error))?.len();
                if bytes == entry.bytes {
                    awaited.is_in_place = true;
                    let blake3 = self.hash_of(&entry, file, bytes)?.finalize().to_hex().to_string();
                    return Ok(Answer::IsThere { blake3, may_be_replaced: store.may_replace() });
                }
                if !store.may_replace() {
                    return refuses(&format!("another file of that name exists, of {bytes} bytes"));
                }
            }
            InPlace::Nothing => {}
        }
        if entry.kind == Kind::Directory {
            return Ok(Answer::Nothing);
        }
        let partial = store.partial(&entry).map_err(|error| failure(store, &entry, error))?;
        let Some(partial) = partial else { return Ok(Answer::Nothing) };
        let bytes = partial.metadata().map_err(|error| failure(store, &entry, error))?.len().min(entry.bytes);
        if bytes == 0 {
            return Ok(Answer::Nothing);
        }
        let hasher = self.hash_of(&entry, partial, bytes)?;
        let blake3 = hasher.finalize().to_hex().to_string();
        awaited.has = Some((bytes, hasher));
        Ok(Answer::Has { bytes, blake3 })
    }

    fn hash_of(&mut self, entry: &Entry, mut file: File, bytes: u64) -> Result<Hasher, Failure> {
        (self.notice)(Notice::Checking { path: &entry.path });
        let mut hasher = Hasher::new();
        let mut piece = vec![0; PIECE_BYTES];
        let mut left = bytes;
        while left > 0 {
            let most = PIECE_BYTES.min(usize::try_from(left).unwrap_or(usize::MAX));
            let count = file
                .read(&mut piece[..most])
                .map_err(|error| Failure::Store { path: entry.path.clone(), error })?;
            if count == 0 {
                break;
            }
            hasher.update(&piece[..count]);
            left -= count as u64;
            if (self.line.stop)() {
                return Err(Failure::Stopped);
            }
            self.tell_busy()?;
        }
        Ok(hasher)
    }

    /// Reports `busy` to the sender at intervals while this end works before it answers.
    fn tell_busy(&mut self) -> Result<(), Failure> {
        let Some(told) = &mut self.told else { return Ok(()) };
        if told.elapsed() < BUSY_EVERY {
            return Ok(());
        }
        *told = Instant::now();
        self.line.say(&FromReceiver::Busy)
    }

    /// Refuses all of it now if the space is too small, rather than a part of it later.
    fn look_for_room(&self) -> Result<(), Failure> {
        let Whereto::Directory(store) = self.whereto else { return Ok(()) };
        let is_to_come = |awaited: &&Awaited| !awaited.is_over && !awaited.is_in_place;
        let still =
            |awaited: &Awaited| awaited.entry.bytes - awaited.has.as_ref().map_or(0, |(bytes, _)| *bytes);
        let needed_bytes = self.awaited.iter().filter(is_to_come).map(still).sum();
        let path = store.path().display().to_string();
        let free_bytes = store.free_bytes().map_err(|error| Failure::Store { path: path.clone(), error })?;
        if needed_bytes > free_bytes { Err(Failure::Room { needed_bytes, free_bytes, path }) } else { Ok(()) }
    }

    fn start(&mut self, index: u64, from: u64) -> Result<(), Failure> {
        let index = self.expected(index)?;
        let (whereto, stop) = (self.whereto, self.line.stop);
        let awaited = &mut self.awaited[index];
        let has = awaited.has.take();
        let (bytes, hasher) = match has {
            Some((bytes, hasher)) if bytes == from && from > 0 => (bytes, hasher),
            _ if from == 0 => (0, Hasher::new()),
            _ => return Err(Failure::protocol(format!("a file that resumes at byte {from}"))),
        };
        let entry = &awaited.entry;
        let (mut part, mut refused) = (None, None);
        if let (Whereto::Directory(store), Kind::File) = (whereto, entry.kind) {
            let opened = store.claim(entry, &|| stop()).and_then(|part| {
                let length = part.file.metadata()?.len();
                if length < from {
                    return Err(io::ErrorKind::ResourceBusy.into());
                }
                part.file.set_len(from)?;
                (&part.file).seek(SeekFrom::Start(from))?;
                Ok(part)
            });
            match opened {
                Ok(opened) => part = Some(opened),
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    refused = Some("it is being received from another sender".to_owned());
                }
                Err(error) => return Err(failure(store, entry, error)),
            }
        }
        (self.notice)(Notice::Began { path: &entry.path, from, bytes: entry.bytes });
        self.current = Some(Current { index, part, hasher, bytes, refused });
        Ok(())
    }

    fn take_data(&mut self, data: &[u8]) -> Result<(), Failure> {
        let Some(current) = &mut self.current else { return Err(Failure::protocol("data of no file")) };
        let entry = &self.awaited[current.index].entry;
        current.bytes += data.len() as u64;
        if current.bytes > entry.bytes {
            return Err(Failure::protocol(format!(
                "more data than the {} bytes of {}",
                entry.bytes, entry.path
            )));
        }
        if let Some(part) = &current.part {
            (&part.file)
                .write_all(data)
                .map_err(|error| Failure::Store { path: entry.path.clone(), error })?;
        }
        current.hasher.update(data);
        (self.notice)(Notice::Moved { bytes: data.len() as u64 });
        Ok(())
    }

    fn end(&mut self, index: u64, blake3: &str) -> Result<(), Failure> {
        let number = self.expected(index)?;
        let current = self.current.take().filter(|current| current.index == number);
        let current = current.ok_or_else(|| Failure::protocol("end of a file that was not begun"))?;
        let entry = self.awaited[number].entry.clone();
        if let Some(reason) = current.refused {
            return self.refuse(index, number, reason);
        }
        if current.bytes != entry.bytes {
            let (came, all) = (current.bytes, entry.bytes);
            return Err(Failure::protocol(format!("{} ends after {came} of {all} bytes", entry.path)));
        }
        if current.hasher.finalize().to_hex().as_str() != blake3 {
            if let (Some(part), Whereto::Directory(store)) = (current.part, self.whereto) {
                part.discard().map_err(|error| failure(store, &entry, error))?;
            }
            return self.line.say(&FromReceiver::Damaged { index });
        }
        match self.keep(&entry, current.part) {
            Ok(()) => {
                self.awaited[number].is_over = true;
                self.count(&entry, &Outcome::Delivered);
                self.line.say(&FromReceiver::Verified { index })
            }
            Err(error) if is_about_the_place(&error) => {
                self.refuse(index, number, format!("something else is in its place: {error}"))
            }
            Err(error) => Err(Failure::Store { path: entry.path, error }),
        }
    }

    fn keep(&self, entry: &Entry, part: Option<Part<'_>>) -> io::Result<()> {
        let Whereto::Directory(store) = self.whereto else { return Ok(()) };
        let parts = entry.parts().map_err(io::Error::other)?;
        match part {
            Some(part) => part.put(entry, &parts),
            None => store.make_directory(&parts),
        }
    }

    fn same(&mut self, index: u64) -> Result<(), Failure> {
        let number = self.expected(index)?;
        if !self.awaited[number].is_in_place {
            return Err(Failure::protocol("the other end claims a file that does not exist"));
        }
        self.awaited[number].is_over = true;
        let entry = self.awaited[number].entry.clone();
        self.count(&entry, &Outcome::AlreadyThere);
        Ok(())
    }

    fn skip(&mut self, index: u64, reason: String) -> Result<(), Failure> {
        let number = self.expected(index)?;
        let entry = self.awaited[number].entry.clone();
        if let Some(part) = self.current.take().and_then(|current| current.part)
            && let Whereto::Directory(store) = self.whereto
        {
            part.discard().map_err(|error| failure(store, &entry, error))?;
        }
        self.awaited[number].is_over = true;
        self.count(&entry, &Outcome::Refused(reason));
        Ok(())
    }

    fn refuse(&mut self, index: u64, number: usize, reason: String) -> Result<(), Failure> {
        self.awaited[number].is_over = true;
        let entry = self.awaited[number].entry.clone();
        self.count(&entry, &Outcome::Refused(reason.clone()));
        self.line.say(&FromReceiver::Refused { index, reason })
    }

    fn finish(&mut self) -> Result<(), Failure> {
        if let Whereto::Directory(store) = self.whereto {
            // A slow disk may take longer to write its cached data than a sender waits for a message.
            let synced = meanwhile(|| store.sync(), POLL_INTERVAL, || self.tell_busy())?;
            synced.map_err(|error| Failure::Store { path: store.path().display().to_string(), error })?;
        }
        self.line.say(&FromReceiver::Finished)
    }

    /// Returns the position of an entry that may begin or end now.
    fn expected(&self, index: u64) -> Result<usize, Failure> {
        let number = usize::try_from(index).ok().filter(|number| *number < self.awaited.len());
        let number = number.filter(|number| !self.awaited[*number].is_over);
        let is_other = self.current.as_ref().is_some_and(|current| Some(current.index) != number);
        number
            .filter(|_| !is_other)
            .ok_or_else(|| Failure::protocol("message about a file that is not being transferred"))
    }

    fn count(&mut self, entry: &Entry, outcome: &Outcome) {
        self.tally.count(outcome, entry.bytes);
        (self.notice)(Notice::Ended { path: &entry.path, bytes: entry.bytes, outcome });
    }
}

/// Does something slow, and reports at intervals that it is at work.
fn meanwhile<T: Send>(
    work: impl FnOnce() -> T + Send,
    every: Duration,
    mut tell: impl FnMut() -> Result<(), Failure>,
) -> Result<T, Failure> {
    let (done, outcome) = channel();
    std::thread::scope(|scope| {
        // The other end of the channel exists until the scope ends.
        scope.spawn(move || drop(done.send(work())));
        loop {
            match outcome.recv_timeout(every) {
                Ok(outcome) => return Ok(outcome),
                Err(RecvTimeoutError::Timeout) => tell()?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::Connection(io::ErrorKind::UnexpectedEof.into()));
                }
            }
        }
    })
}

/// Returns whether the error is about a path, rather than a failure of the disk.
fn is_about_the_place(error: &io::Error) -> bool {
    let is_taken = matches!(
        error.kind(),
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory
    );
    // A symbolic link in the place of a directory.
    is_taken || error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}

fn failure(store: &Store, entry: &Entry, error: io::Error) -> Failure {
    Failure::Store { path: store.path().join(&entry.path).display().to_string(), error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_takes_its_time_is_told_of_until_it_is_done() {
        let (tell, told) = channel();
        // It ends after three reports.
        let work = move || told.iter().take(3).sum::<u32>();
        let mut count = 0;
        let outcome = meanwhile(work, Duration::ZERO, || {
            count += 1;
            let _ = tell.send(count);
            Ok(())
        });
        assert_eq!(outcome.unwrap(), 1 + 2 + 3);
        assert!(count >= 3);
    }

    #[test]
    fn what_is_done_is_an_outcome_and_a_connection_that_is_gone_an_end() {
        assert_eq!(meanwhile(|| 7, Duration::MAX, || unreachable!()).unwrap(), 7);
        let (go, goes) = channel::<()>();
        let gone = meanwhile(move || goes.recv(), Duration::ZERO, {
            let mut go = Some(go);
            move || {
                drop(go.take());
                Err(Failure::Stopped)
            }
        });
        assert!(matches!(gone, Err(Failure::Stopped)), "{gone:?}");
    }
}
