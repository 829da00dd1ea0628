//! Measurement of iceoryx2 with the same messages, copied in and copied out.
//!
//! Its subscriber has a slot for as many messages as fit into the ring; when all are taken its publisher waits, as
//! by default. A sleeping subscriber is woken by its event service, a second call in addition to the sample's.

use std::hint::{black_box, spin_loop};
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, anyhow, bail};
use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use peers::process::{stand_by, tell, wait_for_go};

use crate::bandwidth::{DURATION, Rate};
use crate::latency::{Exchange, RING_BYTES, Wait};
use crate::{PATIENCE, Task};

/// Maximum number of subscriber slots: as many messages as a ring holds, within the limits of its queues.
const MAX_SLOTS: usize = 4096;

/// First byte of the last message.
const LAST: u8 = 0xff;

/// Number of polls between two readings of the clock.
const POLLS_PER_CLOCK_READING: u32 = 1 << 20;

/// Number of messages between two readings of the clock.
const MESSAGES_PER_CLOCK: usize = 16;

/// One direction, a service with its own name.
struct Channel {
    node: Node<ipc::Service>,
    name: String,
    message_bytes: usize,
    ring_bytes: usize,
}

/// Sending end.
struct MessageSender {
    publisher: Publisher<ipc::Service, [u8], ()>,
    notifier: Option<Notifier<ipc::Service>>,
}

/// Receiving end.
struct MessageReceiver {
    subscriber: Subscriber<ipc::Service, [u8], ()>,
    listener: Option<Listener<ipc::Service>>,
    message: Vec<u8>,
}

/// Sends every message, and measures.
pub(crate) fn ping(exchange: Exchange) -> Result<()> {
    let [there, back] = channels(&exchange)?;
    let (sender, mut receiver) = (there.sender(exchange.wait)?, back.receiver(exchange.wait)?);
    stand_by()?;
    let message = vec![3_u8; exchange.message_bytes];
    let figures = exchange.time(|| {
        sender.send(&message)?;
        receiver.receive().map(|_| ())
    })?;
    tell("figures", &figures)
}

/// Sends every message back.
pub(crate) fn pong(exchange: Exchange) -> Result<()> {
    let [there, back] = channels(&exchange)?;
    let (mut receiver, sender) = (there.receiver(exchange.wait)?, back.sender(exchange.wait)?);
    stand_by()?;
    for _ in 0..exchange.total() {
        sender.send(receiver.receive()?)?;
    }
    // Messages that the other side has not read are lost when their publisher exits.
    wait_for_go()
}

/// Publishes as fast as the subscriber allows.
pub(crate) fn publish(task: Task) -> Result<()> {
    let channel = bandwidth_channel(&task)?;
    let sender = channel.sender(Wait::Spin)?;
    stand_by()?;
    let mut message = vec![3_u8; channel.message_bytes];
    let end = Instant::now() + DURATION;
    while Instant::now() < end {
        for _ in 0..MESSAGES_PER_CLOCK {
            sender.send(&message)?;
        }
    }
    message[0] = LAST;
    sender.send(&message)?;
    wait_for_go()
}

/// Reads until the last message.
pub(crate) fn subscribe(task: Task) -> Result<()> {
    let mut receiver = bandwidth_channel(&task)?.receiver(Wait::Spin)?;
    stand_by()?;
    let (mut messages, mut begun) = (0_u64, None);
    loop {
        let last = receiver.receive()?.first() == Some(&LAST);
        messages += 1;
        let begun = begun.get_or_insert_with(Instant::now);
        if last {
            return tell("rate", &Rate { messages: messages as f64, seconds: begun.elapsed().as_secs_f64() });
        }
    }
}

/// Creates both directions; the measurement's own directory makes their names unique.
fn channels(exchange: &Exchange) -> Result<[Channel; 2]> {
    let Exchange { directory, message_bytes, ring_bytes, .. } = exchange;
    let channel = |direction| Channel::new(directory, direction, *message_bytes, *ring_bytes);
    Ok([channel("there")?, channel("back")?])
}

fn bandwidth_channel(task: &Task) -> Result<Channel> {
    Channel::new(&task.directory, "rate", task.message_bytes, RING_BYTES)
}

impl Channel {
    fn new(directory: &Path, name: &str, message_bytes: usize, ring_bytes: usize) -> Result<Self> {
        set_log_level(LogLevel::Error);
        let node = NodeBuilder::new()
            .signal_handling_mode(SignalHandlingMode::Disabled)
            .create::<ipc::Service>()
            .map_err(said)?;
        Ok(Self { node, name: format!("{}/{name}", directory.display()), message_bytes, ring_bytes })
    }

    fn sender(&self, wait: Wait) -> Result<MessageSender> {
        let publisher = self
            .service()?
            .publisher_builder()
            .initial_max_slice_len(self.message_bytes)
            .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
            .create()
            .map_err(said)?;
        let notifier = match wait {
            Wait::Spin => None,
            Wait::Futex => Some(self.event()?.notifier_builder().create().map_err(said)?),
        };
        Ok(MessageSender { publisher, notifier })
    }

    fn receiver(&self, wait: Wait) -> Result<MessageReceiver> {
        let subscriber = self.service()?.subscriber_builder().create().map_err(said)?;
        let listener = match wait {
            Wait::Spin => None,
            Wait::Futex => Some(self.event()?.listener_builder().create().map_err(said)?),
        };
        Ok(MessageReceiver { subscriber, listener, message: vec![0; self.message_bytes] })
    }

    fn service(
        &self,
    ) -> Result<iceoryx2::service::port_factory::publish_subscribe::PortFactory<ipc::Service, [u8], ()>> {
        let slots = (self.ring_bytes / self.message_bytes).clamp(2, MAX_SLOTS);
        self.node
            .service_builder(&self.name.as_str().try_into().map_err(said)?)
            .publish_subscribe::<[u8]>()
            .enable_safe_overflow(false)
            .history_size(0)
            .subscriber_max_buffer_size(slots)
            .open_or_create()
            .map_err(said)
    }

    fn event(&self) -> Result<iceoryx2::service::port_factory::event::PortFactory<ipc::Service>> {
        let name = format!("{}/doorbell", self.name);
        self.node
            .service_builder(&name.as_str().try_into().map_err(said)?)
            .event()
            .open_or_create()
            .map_err(said)
    }
}

impl MessageSender {
    fn send(&self, message: &[u8]) -> Result<()> {
        let sample = self.publisher.loan_slice_uninit(message.len()).map_err(said)?;
        sample.write_from_slice(message).send().map_err(said)?;
        if let Some(notifier) = &self.notifier {
            notifier.notify().map_err(said)?;
        }
        Ok(())
    }
}

impl MessageReceiver {
    /// Waits for the next message, and copies it.
    fn receive(&mut self) -> Result<&[u8]> {
        let mut looks = 0_u32;
        let mut since = None;
        loop {
            if let Some(sample) = self.subscriber.receive().map_err(said)? {
                self.message.copy_from_slice(sample.payload());
                return Ok(black_box(&self.message));
            }
            match &self.listener {
                Some(listener) => {
                    listener.timed_wait(|_| {}, PATIENCE).map_err(said)?;
                }
                None => spin_loop(),
            }
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(POLLS_PER_CLOCK_READING)
                && since.get_or_insert_with(Instant::now).elapsed() > PATIENCE
            {
                bail!("the other side fell silent");
            }
        }
    }
}

/// Converts an error of iceoryx2.
fn said(error: impl std::fmt::Debug) -> anyhow::Error {
    anyhow!("iceoryx2 failed: {error:?}\nmake sure that this user may write to /tmp/iceoryx2 and /dev/shm")
}
