//! Sending end: offers its entries, sends those that the other end lacks, and the hash of each file.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver as Inbox, TryRecvError, channel};

use blake3::Hasher;

use crate::VERSION;
use crate::entry::{Entry, Kind};
use crate::failure::Failure;
use crate::frame::{
    Answer, CRC_BYTES, FromReceiver, FromSender, HEADER_BYTES, LISTED_TOGETHER, PIECE_BYTES, seal_data,
};
use crate::line::Line;
use crate::listing::{Listing, Reading};
use crate::outcome::{Notice, Outcome, Tally};
use crate::patience::{Patience, Pulse};

/// Name of the protocol in the first message.
pub(crate) const PROTOCOL: &str = "tallycast transfer";
/// Maximum number of times that a file arrives damaged before it is given up.
const TRIES: u8 = 3;

/// Sender of a listing to a receiver, over one connection or several.
#[derive(Debug)]
pub struct Sender {
    listing: Listing,
    progress: Vec<EntryProgress>,
    tally: Tally,
}

/// The progress of an entry: its outcome, once it is known, and its damaged attempts.
#[derive(Clone, Default, Debug)]
struct EntryProgress {
    outcome: Option<Outcome>,
    times_damaged: u8,
}

/// Work of one connection: the entries offered over it, and the messages received meanwhile.
struct Session<'s, C> {
    line: Line<'s, C>,
    inbox: Inbox<Result<FromReceiver, Failure>>,
    notice: &'s mut dyn FnMut(Notice<'_>),
    /// Entries offered over this connection, by their position in the list.
    offered: Vec<usize>,
    is_finished: bool,
}

impl Sender {
    /// Creates a sender of a listing.
    #[must_use]
    pub fn new(listing: Listing) -> Self {
        let mut tally = Tally::default();
        listing.entries.iter().for_each(|entry| tally.offer(entry.bytes));
        let progress = vec![EntryProgress::default(); listing.entries.len()];
        Self { listing, progress, tally }
    }

    /// Returns the current account.
    #[must_use]
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    /// Returns the entries without an outcome, with their sizes.
    pub fn missing(&self) -> impl Iterator<Item = &Entry> {
        let both = self.listing.entries.iter().zip(&self.progress);
        both.filter(|(_, progress)| progress.outcome.is_none()).map(|(entry, _)| entry)
    }

    /// Sends the entries without an outcome over a connection. Reads of the connection must time out now and then, so
    /// that `stop` is checked.
    ///
    /// # Errors
    /// [`Failure`]; where [it is worth it](Failure::is_worth_another_try), continue over another connection.
    pub fn send<C>(
        &mut self,
        connection: &C,
        stop: &(dyn Fn() -> bool + Sync),
        notice: &mut dyn FnMut(Notice<'_>),
    ) -> Result<(), Failure>
    where
        C: Sync,
        for<'c> &'c C: Read + Write,
    {
        self.send_within(connection, None, stop, notice)
    }

    /// Sends as [`send`](Self::send) does, and considers the connection broken once it has carried nothing for the
    /// given time.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn send_within<C>(
        &mut self,
        connection: &C,
        patience: Option<Patience<'_>>,
        stop: &(dyn Fn() -> bool + Sync),
        notice: &mut dyn FnMut(Notice<'_>),
    ) -> Result<(), Failure>
    where
        C: Sync,
        for<'c> &'c C: Read + Write,
    {
        let pulse = Pulse::new(patience);
        let line = Line { connection, stop, pulse: &pulse };
        let undone = |index: &usize| self.progress[*index].outcome.is_none();
        let offered: Vec<usize> = (0..self.progress.len()).filter(undone).collect();
        notice(Notice::Listed { entries: offered.len() as u64, bytes: self.tally.missing_bytes() });
        self.offer(line, &offered)?;
        let answers = hear_answers(line, offered.len())?;
        let is_over = AtomicBool::new(false);
        let stops = || is_over.load(Ordering::Relaxed) || stop();
        let listening = Line { connection, stop: &stops, pulse: &pulse };
        std::thread::scope(|scope| {
            let (heard, inbox) = channel();
            scope.spawn(move || {
                let mut body = Vec::new();
                loop {
                    let word = listening.hear_word::<FromReceiver>(&mut body);
                    let is_last =
                        matches!(word, Err(_) | Ok(FromReceiver::Finished | FromReceiver::Fail { .. }));
                    if heard.send(word).is_err() || is_last {
                        return;
                    }
                }
            });
            let mut session = Session { line, inbox, notice, offered, is_finished: false };
            let outcome = self.send_all(&mut session, answers);
            if let Err(failure) = &outcome
                && !failure.is_worth_another_try()
            {
                // If it can no longer be sent, the other end sees the end of the connection.
                drop(line.say(&FromSender::Fail { reason: failure.to_string() }));
            }
            is_over.store(true, Ordering::Relaxed);
            outcome.map_err(|failure| session.why(failure))
        })
    }

    fn offer<C>(&self, line: Line<'_, C>, offered: &[usize]) -> Result<(), Failure>
    where
        for<'c> &'c C: Read + Write,
    {
        line.say(&FromSender::Hello { protocol: PROTOCOL.to_owned(), version: VERSION, hears_busy: true })?;
        let mut chunks = offered.chunks(LISTED_TOGETHER).peekable();
        loop {
            let chunk = chunks.next().unwrap_or_default();
            let entries = chunk.iter().map(|index| self.listing.entries[*index].clone()).collect();
            let last = chunks.peek().is_none();
            line.say(&FromSender::Entries { entries, last })?;
            if last {
                return Ok(());
            }
        }
    }

    fn send_all<C>(&mut self, session: &mut Session<'_, C>, answers: Vec<Answer>) -> Result<(), Failure>
    where
        for<'c> &'c C: Read + Write,
    {
        for (number, answer) in answers.into_iter().enumerate() {
            let index = session.offered[number];
            if let Some(outcome) = self.send_one(session, number as u64, index, answer)? {
                self.end(session.notice, index, outcome);
            }
            self.take_news(session)?;
        }
        session.line.say(&FromSender::Done)?;
        while !session.is_finished {
            let word = session.inbox.recv();
            let word = word.unwrap_or_else(|_| Err(Failure::Connection(io::ErrorKind::UnexpectedEof.into())));
            self.take(session, word?)?;
        }
        let damaged = self.progress.iter().filter(|progress| progress.outcome.is_none()).count();
        if damaged > 0 {
            let text = format!("{damaged} files arrived damaged");
            return Err(Failure::Connection(io::Error::new(io::ErrorKind::InvalidData, text)));
        }
        Ok(())
    }

    /// Sends one entry as far as it is needed; returns its outcome if it is known at once.
    fn send_one<C>(
        &mut self,
        session: &mut Session<'_, C>,
        number: u64,
        index: usize,
        answer: Answer,
    ) -> Result<Option<Outcome>, Failure>
    where
        for<'c> &'c C: Read + Write,
    {
        let entry = self.listing.entries[index].clone();
        let skip = |session: &Session<'_, C>, reason: String| {
            session.line.say(&FromSender::Skip { index: number, reason: reason.clone() })?;
            Ok(Some(Outcome::Refused(reason)))
        };
        let mut hasher = Hasher::new();
        let (from, mut reading) = match answer {
            Answer::Refuses { reason } => return Ok(Some(Outcome::Refused(reason))),
            _ if entry.kind == Kind::Directory => (0, None),
            _ => match self.listing.open(index) {
                Ok(reading) => (0, Some(reading)),
                Err(error) => return skip(session, format!("it cannot be read: {error}")),
            },
        };
        let from = match (answer, &mut reading) {
            (Answer::IsThere { blake3, may_be_replaced }, reading) => {
                let own = self.hash_of(session, &entry, reading.as_mut(), entry.bytes)?;
                if own.finalize().to_hex().as_str() == blake3 {
                    session.line.say(&FromSender::Same { index: number })?;
                    return Ok(Some(Outcome::AlreadyThere));
                }
                if !may_be_replaced {
                    return skip(session, "another file of that name and size exists".to_owned());
                }
                from
            }
            (Answer::Has { bytes, blake3 }, reading) if bytes <= entry.bytes => {
                let own = self.hash_of(session, &entry, reading.as_mut(), bytes)?;
                if own.finalize().to_hex().as_str() == blake3 {
                    hasher = own;
                    bytes
                } else {
                    from
                }
            }
            _ => from,
        };
        (session.notice)(Notice::Began { path: &entry.path, from, bytes: entry.bytes });
        session.line.say(&FromSender::Start { index: number, from })?;
        if let Some(reading) = &mut reading
            && let Err(error) = reading.go_to(from)
        {
            return skip(session, format!("it cannot be read: {error}"));
        }
        if let Some(reason) = self.send_data(session, &mut hasher, reading.as_mut(), entry.bytes - from)? {
            return skip(session, reason);
        }
        if entry.kind == Kind::File && self.listing.has_changed(index) {
            return skip(session, "it changed while it was sent".to_owned());
        }
        session
            .line
            .say(&FromSender::End { index: number, blake3: hasher.finalize().to_hex().to_string() })?;
        Ok(None)
    }

    /// Sends the rest of a file; returns the reason if not all of it was sent.
    fn send_data<C>(
        &mut self,
        session: &mut Session<'_, C>,
        hasher: &mut Hasher,
        reading: Option<&mut Reading>,
        mut left: u64,
    ) -> Result<Option<String>, Failure>
    where
        for<'c> &'c C: Read + Write,
    {
        const AHEAD: usize = HEADER_BYTES + CRC_BYTES;
        let Some(reading) = reading else { return Ok(None) };
        let mut piece = vec![0; AHEAD + PIECE_BYTES];
        while left > 0 {
            let most = PIECE_BYTES.min(usize::try_from(left).unwrap_or(usize::MAX));
            let count = match reading.read(&mut piece[AHEAD..AHEAD + most]) {
                Ok(0) => return Ok(Some("it shrank while it was sent".to_owned())),
                Ok(count) => count,
                Err(error) => return Ok(Some(format!("it cannot be read: {error}"))),
            };
            hasher.update(&piece[AHEAD..AHEAD + count]);
            seal_data(&mut piece[..AHEAD + count]);
            session.line.write_all(&piece[..AHEAD + count])?;
            left -= count as u64;
            (session.notice)(Notice::Moved { bytes: count as u64 });
            self.take_news(session)?;
        }
        Ok(None)
    }

    /// Hashes the beginning of a file; a shorter one has another hash, which is the point of the comparison.
    fn hash_of<C>(
        &mut self,
        session: &mut Session<'_, C>,
        entry: &Entry,
        reading: Option<&mut Reading>,
        bytes: u64,
    ) -> Result<Hasher, Failure>
    where
        for<'c> &'c C: Read + Write,
    {
        let mut hasher = Hasher::new();
        let Some(reading) = reading else { return Ok(hasher) };
        (session.notice)(Notice::Checking { path: &entry.path });
        let mut piece = vec![0; PIECE_BYTES];
        let mut left = bytes;
        while left > 0 {
            let most = PIECE_BYTES.min(usize::try_from(left).unwrap_or(usize::MAX));
            let Ok(count @ 1..) = reading.read(&mut piece[..most]) else { break };
            hasher.update(&piece[..count]);
            left -= count as u64;
            // The other end has nothing to send until this one has hashed the file.
            session.line.pulse.beat();
            self.take_news(session)?;
        }
        Ok(hasher)
    }

    /// Takes the messages of the receiver that have arrived.
    fn take_news<C>(&mut self, session: &mut Session<'_, C>) -> Result<(), Failure> {
        loop {
            match session.inbox.try_recv() {
                Ok(word) => self.take(session, word?)?,
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => {
                    return Err(Failure::Connection(io::ErrorKind::UnexpectedEof.into()));
                }
            }
        }
    }

    fn take<C>(&mut self, session: &mut Session<'_, C>, word: FromReceiver) -> Result<(), Failure> {
        let (number, outcome) = match word {
            FromReceiver::Verified { index } => (index, Some(Outcome::Delivered)),
            FromReceiver::Refused { index, reason } => (index, Some(Outcome::Refused(reason))),
            FromReceiver::Damaged { index } => (index, None),
            FromReceiver::Fail { reason } => return Err(Failure::Peer(reason)),
            FromReceiver::Busy => return Ok(()),
            FromReceiver::Answers { .. } | FromReceiver::Joined => {
                return Err(Failure::protocol("unrequested answers"));
            }
            FromReceiver::Finished => {
                session.is_finished = true;
                return Ok(());
            }
        };
        let number = usize::try_from(number).ok().and_then(|number| session.offered.get(number));
        let Some(&index) = number.filter(|index| self.progress[**index].outcome.is_none()) else {
            return Err(Failure::protocol("message about a file that is not being transferred"));
        };
        self.progress[index].times_damaged += u8::from(outcome.is_none());
        let is_hopeless = self.progress[index].times_damaged == TRIES;
        let given_up = || Outcome::Refused(format!("it arrived damaged {TRIES} times"));
        if let Some(outcome) = outcome.or_else(|| is_hopeless.then(given_up)) {
            self.end(session.notice, index, outcome);
        }
        Ok(())
    }

    fn end(&mut self, notice: &mut dyn FnMut(Notice<'_>), index: usize, outcome: Outcome) {
        let entry = &self.listing.entries[index];
        self.tally.count(&outcome, entry.bytes);
        notice(Notice::Ended { path: &entry.path, bytes: entry.bytes, outcome: &outcome });
        self.progress[index].outcome = Some(outcome);
    }
}

impl<C> Session<'_, C> {
    /// Returns the failure: the receiver's last message is more informative than the end of the connection.
    fn why(&self, failure: Failure) -> Failure {
        if !failure.is_worth_another_try() {
            return failure;
        }
        let said = self.inbox.iter().find_map(|word| match word {
            Ok(FromReceiver::Fail { reason }) => Some(Failure::Peer(reason)),
            _ => None,
        });
        said.unwrap_or(failure)
    }
}

fn hear_answers<C>(line: Line<'_, C>, count: usize) -> Result<Vec<Answer>, Failure>
where
    for<'c> &'c C: Read + Write,
{
    let mut body = Vec::new();
    let mut all = Vec::new();
    while all.len() < count {
        match line.hear_word::<FromReceiver>(&mut body)? {
            FromReceiver::Answers { answers } if !answers.is_empty() => all.extend(answers),
            FromReceiver::Busy => {}
            FromReceiver::Fail { reason } => return Err(Failure::Peer(reason)),
            _ => return Err(Failure::protocol("unexpected message instead of answers")),
        }
    }
    if all.len() > count {
        return Err(Failure::protocol("more answers than questions"));
    }
    Ok(all)
}
