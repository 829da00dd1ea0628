//! Conversion of a subscriber's events to a recorder's inputs.

use tallycast::{Event, account_json};
use units::Instant;

use crate::Description;
use crate::error::ArchiveError;
use crate::recorder::{Began, Input, ReaderGap, Recorder, StreamAccount};

impl Recorder {
    /// Takes a subscriber's event; `reader` is the name under which the subscriber reads.
    ///
    /// # Errors
    /// As [`Recorder::handle`].
    pub fn take_event(&mut self, now: Instant, reader: &str, event: &Event) -> Result<(), ArchiveError> {
        match event {
            Event::Began(info) => {
                let description = Description {
                    name: info.name.clone(),
                    epoch: info.epoch,
                    schema: info.schema.clone(),
                    station: info.station.clone(),
                };
                let (first_index, reader) = (info.first_index, reader.to_owned());
                self.handle(now, Input::Began(Began { description, first_index, reader }))
            }
            Event::Block(block) => self.handle(now, Input::Block(block)),
            Event::Gap(gap) | Event::Settled(gap) => {
                let (stream, gap_itself) = (gap.stream.clone(), gap.gap.clone());
                let gap = ReaderGap { stream, epoch: gap.epoch, gap: gap_itself, t0: gap.t0, t1: gap.t1 };
                self.handle(now, Input::Gap(&gap))
            }
            Event::Ended(account) => self.handle(now, Input::Ended(account_of(account))),
        }
    }

    /// Takes the current accounts, to be written next to the samples.
    ///
    /// # Errors
    /// As [`Recorder::handle`].
    pub fn take_accounts(
        &mut self,
        now: Instant,
        accounts: &[tallycast::StreamAccount],
    ) -> Result<(), ArchiveError> {
        accounts.iter().try_for_each(|account| self.handle(now, Input::Account(account_of(account))))
    }
}

fn account_of(account: &tallycast::StreamAccount) -> StreamAccount {
    StreamAccount { stream: account.stream.clone(), epoch: account.epoch, account: account_json(account) }
}
