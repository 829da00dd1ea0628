//! An input of a running app: a subscriber that is emptied once per cycle.

use std::sync::Arc;
use std::time::Duration;

use cyclic::{Freshness, News, Take};
use sample::{Block, Dtype, SampleBuffer, Schema};
use units::WallTime;

use super::outcome::AppError;
use super::ports::InputOf;
use crate::event::{Event, StreamAccount};
use crate::node::Node;
use crate::subscriber::Subscriber;

/// Maximum share that an app reads per cycle, so that an app that was delayed returns to its work and its
/// memory stays small; the rest is read in the next cycle. The bytes are those of the largest sample that a
/// subscriber accepts, more than a usual ring holds.
const PER_CYCLE: Share = Share { events: 65_536, bytes: 1 << 28 };

/// Maximum amount of input taken in one cycle.
#[derive(Clone, Copy)]
struct Share {
    events: usize,
    /// Bytes of samples; the block that reaches this is the last.
    bytes: usize,
}

/// An input of a running app.
pub(super) struct InputPort {
    subscriber: Subscriber,
    share: Share,
    /// An event that arrived in this cycle and belongs to the next.
    put_off: Option<Event>,
    take: Take,
    /// Type of the elements it reads; `None` accepts the published type.
    pub(super) dtype: Option<Dtype>,
    pub(super) freshness: Freshness,
    pub(super) news: News,
    pub(super) newest: Option<Newest>,
    /// The samples of this cycle, oldest first: indices with times, and elements.
    pub(super) marks: Vec<(u64, WallTime)>,
    pub(super) all: SampleBuffer,
    /// Schema of the samples of this cycle, and of the newest; `None` before the first.
    pub(super) schema: Option<Arc<Schema>>,
    warned_of_dtype: bool,
}

/// The newest sample that has arrived.
pub(super) struct Newest {
    pub(super) index: u64,
    pub(super) time: WallTime,
    pub(super) elements: SampleBuffer,
}

impl InputPort {
    pub(super) fn open(node: &Node, app: &str, plan: &InputOf) -> Result<Self, AppError> {
        Ok(Self {
            subscriber: node.subscriber(plan.stream.as_str()).reader(reader_name(app)).open()?,
            share: PER_CYCLE,
            put_off: None,
            take: plan.take,
            dtype: plan.dtype,
            freshness: Freshness::Missed,
            news: News::default(),
            newest: None,
            marks: Vec::new(),
            all: SampleBuffer::default(),
            schema: None,
            warned_of_dtype: false,
        })
    }

    /// Takes the events since the last cycle; returns the period of a stream's samples once it is joined.
    pub(super) fn look(&mut self) -> Option<Duration> {
        self.marks.clear();
        self.all.clear();
        self.news = News { newest: self.news.newest, ..News::default() };
        let mut period = None;
        let mut left = self.share;
        while left.events > 0 && left.bytes > 0 {
            let Some(event) = self.put_off.take().or_else(|| self.subscriber.next(Duration::ZERO)) else {
                break;
            };
            if self.is_of_another_kind(&event) {
                self.put_off = Some(event);
                break;
            }
            left.events -= 1;
            match event {
                Event::Began(info) => period = Some(info.schema.rate.duration_of(1)),
                Event::Block(block) => {
                    left.bytes = left.bytes.saturating_sub(block.data.as_bytes().len());
                    self.take(&block);
                }
                Event::Gap(gap) => self.news.lost_elements += gap.gap.len(),
                Event::Settled(_) | Event::Statement(_) | Event::Ended(_) => {}
            }
        }
        self.news.newest = self.newest.as_ref().map(|newest| newest.time);
        period
    }

    pub(super) fn close(self) -> Vec<StreamAccount> {
        self.subscriber.close()
    }

    /// Returns whether an event begins samples of another size, or of another schema where that is passed on
    /// too, after samples of this cycle, which are passed as one array.
    fn is_of_another_kind(&self, event: &Event) -> bool {
        let schema = match event {
            Event::Began(info) => &info.schema,
            Event::Block(block) => &block.schema,
            Event::Gap(_) | Event::Settled(_) | Event::Statement(_) | Event::Ended(_) => return false,
        };
        let Some(known) = &self.schema else { return false };
        let is_read = self.reads(schema) && !self.marks.is_empty();
        let is_other = match self.dtype {
            Some(_) => schema.sample_bytes() != known.sample_bytes(),
            None => !Arc::ptr_eq(schema, known) && schema != known,
        };
        self.take == Take::All && is_read && is_other
    }

    fn reads(&self, schema: &Schema) -> bool {
        self.dtype.is_none_or(|dtype| dtype == schema.dtype)
    }

    fn take(&mut self, block: &Block) {
        if !self.reads(&block.schema) {
            self.refuse(block);
            return;
        }
        let per_sample = u64::from(block.schema.elements_per_sample());
        let sample_bytes = block.schema.sample_bytes();
        let samples = block.data.as_bytes().chunks_exact(sample_bytes).zip(0_u64..);
        // A partial sample is not usable by a function; its elements count as lost.
        let whole =
            samples.filter(|(_, at)| block.missing.count_in(at * per_sample..(at + 1) * per_sample) == 0);
        for (bytes, at) in whole {
            self.news.samples += 1;
            let (index, time) = (block.first_index + at, block.time_of(block.first_index + at));
            if self.take == Take::Newest {
                self.marks.clear();
                self.all.clear();
            }
            if self.schema.as_ref().is_none_or(|known| !Arc::ptr_eq(known, &block.schema)) {
                self.schema = Some(Arc::clone(&block.schema));
            }
            self.marks.push((index, time));
            self.all.extend_from_bytes(bytes);
            let newest =
                self.newest.get_or_insert_with(|| Newest { index, time, elements: SampleBuffer::default() });
            (newest.index, newest.time) = (index, time);
            newest.elements.clear();
            newest.elements.extend_from_bytes(bytes);
        }
    }

    fn refuse(&mut self, block: &Block) {
        if let Some(dtype) = self.dtype
            && !std::mem::replace(&mut self.warned_of_dtype, true)
        {
            tracing::warn!(
                "the input `{}` is not read: its elements are {}, not {dtype}\npublish it with that type, or change the type of the input",
                block.stream,
                block.schema.dtype,
            );
        }
    }
}

/// Returns the end of an app's name: a reader's name has a limit, and the last parts distinguish apps.
pub(super) fn reader_name(app: &str) -> &str {
    let first = app.len().saturating_sub(wire::MAX_READER_NAME_BYTES);
    let first = (first..=app.len()).find(|at| app.is_char_boundary(*at)).unwrap_or(app.len());
    &app[first..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publisher::Publisher;
    use sample::Channel;

    fn node(directory: &tempfile::TempDir) -> Node {
        let bus = format!("shm://input?dir={}", directory.path().display());
        Node::open(bus.parse().unwrap()).unwrap()
    }

    fn publisher(node: &Node, channels: &[&str]) -> Publisher {
        let channels = channels.iter().map(|name| Channel::new(*name, ""));
        node.publisher("test/in").dtype(Dtype::F8).rate(1_000).channels(channels).open().unwrap()
    }

    fn port(node: &Node, take: Take) -> InputPort {
        port_of(node, take, Some(Dtype::F8))
    }

    fn port_of(node: &Node, take: Take, dtype: Option<Dtype>) -> InputPort {
        let plan = InputOf { stream: "test/in".to_owned(), take, dtype };
        InputPort::open(node, "test/app", &plan).unwrap()
    }

    fn indices(port: &InputPort) -> Vec<u64> {
        port.marks.iter().map(|(index, _)| *index).collect()
    }

    #[test]
    fn what_is_more_than_a_cycles_share_comes_in_the_next_and_is_counted_there() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let node = node(&directory);
        let mut publisher = publisher(&node, &["a"]);
        // Joining is one event, each block of two samples is one, and so is the hole between them.
        for (share, first) in [
            (Share { events: 65_536, bytes: 16 }, vec![0, 1]),
            (Share { events: 65_536, bytes: 17 }, vec![0, 1, 3, 4]),
            (Share { events: 1, bytes: 1 << 20 }, vec![]),
            (Share { events: 2, bytes: 1 << 20 }, vec![0, 1]),
        ] {
            let mut port = port(&node, Take::All);
            let from = publisher.next_index();
            publisher.send(&[1.0, 2.0]).unwrap();
            publisher.skip(1, ledger::Stage::Source).unwrap();
            publisher.send(&[3.0, 4.0]).unwrap();
            port.share = share;
            port.look();
            let mut seen: Vec<u64> = indices(&port).iter().map(|index| index - from).collect();
            assert_eq!((&seen, port.news.samples), (&first, first.len() as u64));
            port.share = PER_CYCLE;
            port.look();
            seen.extend(indices(&port).iter().map(|index| index - from));
            assert_eq!((seen, port.news.samples), (vec![0, 1, 3, 4], 4 - first.len() as u64));
        }
    }

    #[test]
    fn a_new_epoch_with_another_sample_size_is_read_in_its_own_cycle() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let node = node(&directory);
        let (mut narrow, mut wide) = (publisher(&node, &["a"]), publisher(&node, &["a", "b"]));
        let mut port = port(&node, Take::All);
        narrow.send(&[1.0, 2.0, 3.0]).unwrap();
        wide.send(&[4.0, 5.0]).unwrap();
        let mut seen = Vec::new();
        for _ in 0..2 {
            port.look();
            assert_eq!(port.news.samples, port.marks.len() as u64, "what is counted is handed over");
            seen.push(port.all.as_bytes().to_vec());
        }
        let bytes = |elements: &[f64]| elements.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<u8>>();
        seen.sort_by_key(Vec::len);
        assert_eq!(seen, [bytes(&[4.0, 5.0]), bytes(&[1.0, 2.0, 3.0])]);
    }

    #[test]
    fn an_untyped_input_takes_every_dtype_and_never_two_in_one_cycle() {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let node = node(&directory);
        let mut floats = publisher(&node, &["a"]);
        let mut integers =
            node.publisher("test/in").dtype(Dtype::I64).rate(1_000).channels([("a", "")]).open().unwrap();
        let mut port = port_of(&node, Take::All, None);
        floats.send(&[1.0, 2.0]).unwrap();
        integers.send(&[3_i64]).unwrap();
        let mut seen = Vec::new();
        for _ in 0..2 {
            port.look();
            let dtype = port.schema.as_ref().unwrap().dtype;
            seen.push((dtype, port.marks.len(), port.all.as_bytes().to_vec()));
            assert_eq!(
                port.newest.as_ref().unwrap().elements.as_bytes(),
                &port.all.as_bytes()[port.all.as_bytes().len() - 8..]
            );
        }
        seen.sort_by_key(|(dtype, ..)| *dtype);
        let floats = [1.0_f64, 2.0].iter().flat_map(|it| it.to_le_bytes()).collect();
        assert_eq!(seen, [(Dtype::I64, 1, 3_i64.to_le_bytes().to_vec()), (Dtype::F8, 2, floats)]);
    }

    #[test]
    fn a_reader_is_named_by_the_end_of_its_apps_name() {
        assert_eq!(reader_name("vehicle/body"), "vehicle/body");
        let (fits, too_long) = ("x".repeat(32), format!("a{}", "x".repeat(32)));
        assert_eq!((reader_name(&fits), reader_name(&too_long)), (&*fits, &*fits));
        let wide = "µ".repeat(17);
        assert_eq!(reader_name(&wide), "µ".repeat(16), "no character is cut");
        let odd = format!("{}x", "µ".repeat(16));
        assert_eq!(reader_name(&odd).len(), 31);
    }
}
