//! A subscriber's look round its host: streams that can be read from shared memory, and those whose writers are gone.

use sample::StreamName;

use super::{MAX_RESTING, Subscriber};
use crate::flow::Flow;
use crate::host_view::Reach;

impl Subscriber {
    /// Puts flows away that have ended, those of this host to where they can be taken up again.
    pub(super) fn put_away_closed(&mut self) {
        if !self.flows.values().any(|flow| flow.closed) {
            return;
        }
        let (closed, open): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.flows).into_iter().partition(|(_, flow)| flow.closed);
        self.flows.extend(open);
        if let Some(host) = &self.host {
            closed.iter().for_each(|(_, flow)| host.shun_broken(flow));
        }
        // What this process has received itself is not read from its beginning again.
        let broken = closed.iter().filter(|(_, flow)| flow.is_broken && flow.reach() == Reach::Udp);
        self.left.extend(broken.map(|(stream, _)| *stream));
        // The stream may have come back meanwhile, with another ring.
        self.generation = None;
        let is_wanted = |flow: &Flow| self.patterns.iter().any(|pattern| pattern.matches(&flow.name));
        let rest = closed.into_iter().filter(|(_, flow)| is_wanted(flow));
        self.resting.extend(rest.map(|(stream, flow)| (stream, flow.into_rest())));
        while self.resting.len() > MAX_RESTING {
            self.resting.pop_first();
        }
        if let Some(host) = &mut self.host {
            host.look_at_all_again();
        }
    }

    /// Reads what can be read on this host and is wanted; sees to flows whose writers were killed.
    pub(super) fn look_at_host(&mut self) {
        let Some(host) = &mut self.host else { return };
        for flow in self.flows.values_mut() {
            flow.look_after_writer(&self.reader, &mut self.scratch);
        }
        let (flows, patterns) = (&mut self.flows, &self.patterns);
        let is_wanted = |name: &StreamName| patterns.iter().any(|pattern| pattern.matches(name));
        // One that came from the network and is silent may as well come from here now.
        let is_read =
            |stream| flows.get_mut(&stream).is_some_and(|flow| flow.reach() != Reach::Udp || !flow.is_idle());
        for stream in host.find(is_read, is_wanted) {
            if self.refuses(&stream.inlet) {
                continue;
            }
            let id = stream.inlet.stream;
            let mut flow = Flow::on_host(stream);
            let idle = self.flows.remove(&id).map(Flow::into_rest);
            if let Some(before) = idle.or_else(|| self.resting.remove(&id)) {
                flow.resume(before);
            }
            flow.leaves_blocks = self.leaves_blocks;
            flow.join(&mut self.scratch);
            self.flows.insert(id, flow);
        }
        self.put_away_closed();
    }
}
