//! Deadlines of the readers of a far bus: readers on other hosts, which report, and readers of this host's rings.

use std::collections::BTreeMap;
use std::time::Duration;

use relay::WantedBy;
use tallycast::relayed::{RelayPublisher, RingReader};
use units::Instant;

use crate::{PublicationKey, Wanted};

/// Interval at which the deadlines of readers are looked up.
const LOOKS: Duration = Duration::from_millis(100);
/// The same for readers of this host's rings, each of which takes some system calls, per [`STREAMS_A_LOOK`] streams.
const HOST_LOOKS: Duration = Duration::from_secs(1);
const STREAMS_A_LOOK: usize = 32;

/// Readers of the streams of a far end.
#[derive(Default)]
pub(crate) struct Readers {
    streams: BTreeMap<PublicationKey, OfStream>,
    /// When the streams of each near relay are looked at again.
    next_looks: BTreeMap<u64, Instant>,
}

struct OfStream {
    on_host: Vec<RingReader>,
    next_look: Instant,
    told: Option<Wanted>,
}

impl Readers {
    /// Returns the readers' deadlines for those streams of a near relay where they have changed; `published` are all
    /// its streams.
    pub(crate) fn wanted<'a>(
        &mut self,
        now: Instant,
        number: u64,
        published: impl Iterator<Item = (u16, &'a RelayPublisher)>,
    ) -> Vec<Wanted> {
        let next = self.next_looks.entry(number).or_insert(now);
        if now < *next {
            return Vec::new();
        }
        *next = now + LOOKS;
        let host_looks =
            HOST_LOOKS * u32::try_from(self.streams.len() / STREAMS_A_LOOK + 1).unwrap_or(u32::MAX);
        let all = std::mem::take(&mut self.streams).into_iter();
        let (mut before, others): (BTreeMap<_, _>, _) = all.partition(|((of, _), _)| *of == number);
        self.streams = others;
        let mut news = Vec::new();
        for (slot, publisher) in published {
            let key = (number, slot);
            let fresh = || OfStream { on_host: Vec::new(), next_look: now, told: None };
            let mut stream = before.remove(&key).unwrap_or_else(fresh);
            if now >= stream.next_look {
                stream.next_look = now + host_looks;
                stream.on_host = publisher.ring_readers();
            }
            let wanted = stream.wanted(slot, publisher);
            if stream.told.as_ref() != Some(&wanted) {
                stream.told = Some(wanted.clone());
                news.push(wanted);
            }
            self.streams.insert(key, stream);
        }
        news
    }
}

impl OfStream {
    fn wanted(&self, slot: u16, publisher: &RelayPublisher) -> Wanted {
        let deadlines = publisher.reader_deadlines();
        let remote = deadlines.stated.iter().map(|it| WantedBy {
            reader: it.reader.0,
            name: it.name.clone(),
            deadline: it.deadline,
        });
        let local = self.on_host.iter().filter_map(|it| {
            Some(WantedBy { reader: it.number, name: it.name.clone(), deadline: it.deadline? })
        });
        let has_unstated = deadlines.unstated > 0 || self.on_host.iter().any(|it| it.deadline.is_none());
        Wanted { slot, stated: remote.chain(local).collect(), has_unstated }
    }
}
