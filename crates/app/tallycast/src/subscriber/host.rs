//! A subscriber's checks of its host: streams that can be read from shared memory, and those whose writers
//! are gone.

use engine::RingRead;

use super::{MAX_RESTING, Subscriber};
use crate::event::Event;
use crate::flow::Flow;
use crate::host_view::{Found, HostSelection, HostView, Reach, Start};

/// Maximum number of polls, enough for all rings that may be left for one reader, while others continue to
/// write.
const MAX_POLLS_FOR_LEFT: usize = 1 << 16;

impl Subscriber {
    /// Removes flows that have ended; the state of those of this host is kept so that they can be resumed.
    pub(super) fn put_away_closed(&mut self) {
        self.take_records();
        if !self.flows.values().any(|flow| flow.closed) {
            return;
        }
        let (closed, open): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.flows).into_iter().partition(|(_, flow)| flow.closed);
        self.flows.extend(open);
        if let Some(host) = &self.host {
            closed.iter().for_each(|(_, flow)| host.shun_broken(flow));
        }
        // A stream that this process has received itself is not read from its beginning again.
        let broken = closed.iter().filter(|(_, flow)| flow.is_broken && flow.reach() == Reach::Udp);
        self.left.extend(broken.map(|(stream, _)| *stream));
        // The stream may have returned meanwhile, with another ring.
        self.generation = None;
        let is_selected = |flow: &Flow| self.patterns.iter().any(|pattern| pattern.matches(&flow.name));
        let rest = closed.into_iter().filter(|(_, flow)| is_selected(flow));
        self.resting.extend(rest.map(|(stream, flow)| (stream, flow.into_rest())));
        while self.resting.len() > MAX_RESTING {
            self.resting.pop_first();
        }
        if let Some(host) = &mut self.host {
            host.look_at_all_again();
        }
    }

    /// Reads the selected streams that can be read on this host; handles flows whose writers were killed.
    pub(super) fn look_at_host(&mut self) {
        let Some(host) = &mut self.host else { return };
        for flow in self.flows.values_mut() {
            flow.look_after_writer(&self.reader, &mut self.scratch);
            self.tapped.extend(flow.take_records());
        }
        let flows = &mut self.flows;
        let selection = HostSelection { patterns: &self.patterns, waited_for: self.waited_for };
        // A silent stream from the network may be read from here now.
        let reads = |stream| {
            let flow = flows.get_mut(&stream)?;
            let is_read = flow.reach() != Reach::Udp || !flow.is_idle();
            is_read.then(|| flow.reach())
        };
        for Found { stream, start } in host.find(reads, &selection) {
            if self.refuses(&stream.subscription) {
                continue;
            }
            let id = stream.subscription.stream;
            let mut flow = Flow::on_host(stream);
            let idle = self.flows.remove(&id).map(Flow::into_rest);
            if let Some(before) = idle.or_else(|| self.resting.remove(&id)) {
                flow.resume(before);
            }
            flow.hand_over_as(self.handing);
            flow.set_deadline(self.deadline);
            match start {
                Start::Beginning => flow.wait_for_beginning(),
                Start::Now => flow.join(&mut self.scratch),
            }
            self.flows.insert(id, flow);
        }
        self.waited_for = self.patterns.len();
        self.put_away_closed();
        self.show_publishers();
    }

    /// Reads the rings left by publishers of this host that ended before this reader, which is about to
    /// leave, found them.
    pub(super) fn read_what_was_left(&mut self, mut take: impl FnMut(Event)) {
        for _ in 0..MAX_POLLS_FOR_LEFT {
            self.look_at_host();
            let goes_on = self.pump() || self.flows.values_mut().any(Flow::is_ready);
            self.queue.drain(..).for_each(&mut take);
            if !goes_on || !self.host.as_ref().is_some_and(HostView::has_left) {
                break;
            }
        }
    }

    /// Shows the publishers of this host what this reader waits for and reads.
    fn show_publishers(&mut self) {
        let Some(host) = &mut self.host else { return };
        let reads = |flow: &Flow| {
            let deadline = self.stated.get(&flow.name).copied().max(self.deadline);
            Some(RingRead { stream: flow.stream(), file_number: flow.file_number()?, deadline })
        };
        host.show(&self.reader, &self.patterns, self.flows.values().filter_map(reads), self.deadline);
    }
}
