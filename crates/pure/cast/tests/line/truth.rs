//! The accounts compared with the network's own log, number by number.

use std::collections::BTreeMap;

use ledger::{Account, AccountState, EvidenceSource, LedgerConfig, Stage, StageCounts};
use sim::{Address, LostBy, Network, NodeId, Outcome};
use units::Epoch;
use wire::Datagram;

use super::publisher::EpochAsSent;
use super::reader::{Reader, What};
use super::watch::Following;
use super::{GROUP, Part};

/// Stages that the publisher itself reports.
const SENDER_STAGES: [Stage; 3] = [Stage::Injected, Stage::SenderSocket, Stage::SenderQdisc];

/// Outcomes of an account's numbers, by the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Truth {
    /// Delivered to the reader at least once, readable, while the account was open.
    pub(crate) arrived: u64,
    pub(crate) arrived_elements: u64,
    /// Delivered to the reader from a second host before its account began: held back, and used if there was room.
    pub(crate) held: u64,
    pub(crate) held_elements: u64,
    /// Delivered to the reader only with a damaged content behind an intact header.
    pub(crate) damaged: u64,
    /// One copy arrived before the description, while the buffer dropped another: either attribution is correct.
    pub(crate) early_or_refused: u64,
    /// Never sent, by the publisher's own diary.
    pub(crate) withheld: StageCounts,
    /// Withheld numbers behind the end of an account that was cut: a tally's totals include them, and a bracket does
    /// not know which of the earlier numbers they are.
    pub(crate) withheld_behind_the_cut: StageCounts,
    /// True if the last number was delivered to the reader, and earlier tallies often enough that no loss had to
    /// settle without one.
    pub(crate) heard_to_the_end: bool,
    /// Number of withheld ones that the publisher learned of after the final tally had left.
    pub(crate) withheld_late: u64,
    /// Dropped by the reader's own receive buffer.
    pub(crate) buffer: u64,
    /// Lost in the network, or damaged beyond recognition.
    pub(crate) network: u64,
}

/// Outcome of one number by the log: the better, the smaller.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Arrived {
        elements: u64,
    },
    /// Read before the account began, and held back, because it came from a second host.
    Held {
        elements: u64,
    },
    /// Read before the account began, and possibly dropped by the buffer in another copy.
    Early {
        refused: bool,
    },
    Damaged,
    Buffer,
    Network,
}

/// Compares every account of a reader with the log and returns both.
///
/// An account that rests on a stranger's forgery, which is not in the publisher's diary, keeps the law, but cannot be
/// compared.
///
/// # Panics
/// If they contradict each other.
pub(crate) fn verify(network: &Network<Part>, node: NodeId) -> Vec<(Truth, Account)> {
    let reader = network.node(node).reader();
    reader.check_accounts();
    let mut buffer_named = 0;
    let mut verified = Vec::new();
    for (place, following) in reader.watch.followed.iter().enumerate() {
        let account = account_of(reader, place);
        let (_, as_sent) = epoch_as_sent(network, following.epoch);
        if account.datagrams.is_some_and(|rows| rows.first >= as_sent.next_number) {
            assert_eq!(account.check(), Ok(()));
            continue;
        }
        let truth = truth_of(network, node, following, &account);
        if let Err(what) = truth.agrees_with(&account) {
            panic!("{what} in {}\n{truth:#?}\n{account:#?}", network.scenario());
        }
        buffer_named += account.datagrams.map_or(0, |rows| rows.lost[Stage::ReceiverSocketBuffer]);
        verified.push((truth, account));
    }
    let buffer_drops = network.log().counts(node).lost(LostBy::Buffer);
    // Of several accounts one may have settled by the counter before another received exact evidence of its drops.
    let buffer_named = if verified.len() > 1 { buffer_counted(&verified) } else { buffer_named };
    assert!(buffer_named <= buffer_drops, "{buffer_named} of {buffer_drops} drops: {}", network.scenario());
    verified
}

/// Counts losses that accounts attribute to the receive buffer because its counter rose, without exact evidence.
fn buffer_counted(accounts: &[(Truth, Account)]) -> u64 {
    let evidence = accounts.iter().flat_map(|(_, account)| &account.gaps).flat_map(|gap| &gap.evidence);
    let counted = evidence.filter(|evidence| matches!(evidence.source, EvidenceSource::SocketDrops { .. }));
    counted.map(|evidence| evidence.count).sum()
}

impl Truth {
    /// Compares an account with the truth; returns the first contradiction.
    ///
    /// In any case, everything readable that arrived is received or late, and no stage has more losses than happened
    /// there; numbers without evidence are the rest, and exactly the rest.
    pub(crate) fn agrees_with(&self, account: &Account) -> Result<(), String> {
        let rows = account.datagrams.expect("a reader with a socket");
        let equal = |what: &str, told: u64, happened: u64| {
            if told == happened { Ok(()) } else { Err(format!("{what}: {told} told, {happened} happened")) }
        };
        let came = rows.received + rows.lost[Stage::Late];
        let of_held = came.saturating_sub(self.arrived).min(self.held);
        equal("datagrams that came", came, self.arrived + of_held)?;
        let elements = account.elements.delivered + account.elements.lost[Stage::Late];
        let some_held = elements.saturating_sub(self.arrived_elements).min(self.held_elements);
        let held_elements = if of_held == self.held { self.held_elements } else { some_held };
        equal("elements that came", elements, self.arrived_elements + held_elements)?;
        let damaged = self.damaged + self.held - of_held;
        let early = rows.lost[Stage::Decode].saturating_sub(damaged).min(self.early_or_refused);
        equal("decode", rows.lost[Stage::Decode], damaged + early)?;
        let (mut unnamed, mut too_many) = (0, 0);
        for stage in SENDER_STAGES {
            let (told, happened) = (rows.lost[stage], self.withheld[stage]);
            if told > happened + self.withheld_behind_the_cut[stage] {
                return equal(stage.name(), told, happened);
            }
            unnamed += happened.saturating_sub(told);
            too_many += told.saturating_sub(happened);
        }
        let network = rows.lost[Stage::Network];
        if network > self.network + self.withheld_late {
            return equal(Stage::Network.name(), network, self.network);
        }
        let by_receiver = rows.lost[Stage::ReceiverSocketBuffer];
        let without_a_name = rows.unexplained + rows.unsettled + rows.in_flight + network + by_receiver;
        let refused = self.buffer + self.early_or_refused - early;
        equal("the rest", without_a_name + too_many, self.network + refused + unnamed)?;
        // A reader that joined late can compare totals only from the first tally on; an account that its successor
        // closed has no totals of the end.
        if self.heard_to_the_end && account.state == AccountState::Closed && rows.first == 0 {
            equal("left unnamed by the final tally", unnamed.saturating_sub(self.withheld_late), 0)?;
        }
        Ok(())
    }
}

pub(super) fn account_of(reader: &Reader, place: usize) -> Account {
    let following = &reader.watch.followed[place];
    if let Some((_, account)) = &following.ended {
        return account.clone();
    }
    let mut views = reader.receiver.accounts();
    let view = views.find(|view| view.stream == following.stream && view.epoch == following.epoch);
    view.expect("an account that has not ended is shown").account
}

fn truth_of(network: &Network<Part>, node: NodeId, following: &Following, account: &Account) -> Truth {
    let rows = account.datagrams.expect("a reader with a socket");
    let (publisher, as_sent) = epoch_as_sent(network, following.epoch);
    let ways = ways(network, node, publisher, following);
    let last = ways.get(&rows.next.saturating_sub(1));
    let heard_to_the_end =
        matches!(last, Some(Way::Arrived { .. })) && hears_tallies(network.node(node).reader(), following);
    let mut truth = Truth { withheld_late: as_sent.refused_late, heard_to_the_end, ..Truth::default() };
    for number in rows.first..rows.next {
        match (as_sent.withheld(number), ways.get(&number)) {
            (_, Some(Way::Arrived { elements })) => {
                truth.arrived += 1;
                truth.arrived_elements += elements;
            }
            (None, Some(Way::Held { elements })) => {
                truth.held += 1;
                truth.held_elements += elements;
            }
            (Some(stage), _) => truth.withheld[stage] += 1,
            (None, Some(Way::Early { refused: true })) => truth.early_or_refused += 1,
            (None, Some(Way::Damaged | Way::Early { .. })) => truth.damaged += 1,
            (None, Some(Way::Buffer)) => truth.buffer += 1,
            (None, Some(Way::Network) | None) => truth.network += 1,
        }
    }
    if account.state == AccountState::Cut {
        for stage in (rows.next..as_sent.next_number).filter_map(|number| as_sent.withheld(number)) {
            truth.withheld_behind_the_cut[stage] += 1;
        }
    }
    truth
}

/// Returns whether tallies of an epoch arrived at intervals in which no loss settles.
fn hears_tallies(reader: &Reader, following: &Following) -> bool {
    let of_epoch = || reader.diary.iter().filter(|seen| seen.epoch == following.epoch);
    let first = of_epoch().next().map(|seen| seen.at);
    let tallies =
        of_epoch().filter(|seen| matches!(seen.what, What::Tally | What::FinalTally)).map(|seen| seen.at);
    let times: Vec<_> = first.into_iter().chain(tallies).collect();
    times.windows(2).all(|pair| pair[1].since(pair[0]) < LedgerConfig::default().settle)
}

fn epoch_as_sent(network: &Network<Part>, epoch: Epoch) -> (NodeId, &EpochAsSent) {
    let publishers = network.nodes().filter_map(|(id, part)| match part {
        Part::Publisher(publisher) => Some((id, publisher)),
        Part::Reader(_) | Part::Stranger(_) => None,
    });
    publishers
        .flat_map(|(id, publisher)| publisher.epochs.iter().map(move |as_sent| (id, as_sent)))
        .find(|(_, as_sent)| as_sent.epoch == epoch)
        .expect("an epoch of a publisher of the scene")
}

/// Collects the outcome of every number of an epoch on its path to a reader.
///
/// Losses are in the network's log; the contents of a delivered copy are in the reader's diary.
fn ways(
    network: &Network<Part>,
    node: NodeId,
    publisher: NodeId,
    following: &Following,
) -> BTreeMap<u64, Way> {
    let log = network.log();
    let mut ways: BTreeMap<u64, Way> = BTreeMap::new();
    let mut note = |number, way: Way| {
        let known = ways.entry(number).or_insert(way);
        let refused = [*known, way].contains(&Way::Buffer);
        *known = match way.min(*known) {
            Way::Early { refused: before } => Way::Early { refused: refused || before },
            best => best,
        };
    };
    for pass in log.passes(node) {
        let sent = log.sent(pass.ordinal);
        let Outcome::Lost(by) = pass.outcome else { continue };
        if sent.from != publisher || sent.to != Address::Group(GROUP) {
            continue;
        }
        let datagram = Datagram::decode(sent.bytes).expect("a publisher sends what can be read");
        if let Some(head) = datagram.head().filter(|head| head.epoch == following.epoch) {
            note(head.number, if by == LostBy::Buffer { Way::Buffer } else { Way::Network });
        }
    }
    let ended = following.ended.as_ref().map_or(u64::MAX, |(input, _)| *input);
    let reader = network.node(node).reader();
    // After a predecessor, early datagrams were held back; all of them were used, except those of a second host.
    let is_before = |other: &&Following| {
        other.stream == following.stream && other.epoch != following.epoch && other.began < following.began
    };
    let befores = || reader.watch.followed.iter().filter(is_before);
    let held_from = befores().map(|other| other.began).min().unwrap_or(u64::MAX);
    // The same holds for an epoch that is earlier by its clock than its predecessor.
    let went_back = befores().any(|other| other.epoch > following.epoch);
    let is_elsewhere = went_back || publisher != NodeId(0) && !reader.is_deceived_by(publisher);
    let goes_on = |other: &&Following| other.epoch == following.epoch && other.began < following.began;
    let is_resumed = reader.watch.followed.iter().any(|other| goes_on(&other));
    let known = reader.diary.iter().filter(|seen| seen.stream == following.stream && seen.readable);
    let known_from = known.map(|seen| seen.input).min().unwrap_or(u64::MAX);
    // Once it is described, what a relay sends waits at most, and is used.
    let of_stream = reader.diary.iter().filter(|seen| seen.stream == following.stream && seen.readable);
    let described = of_stream.filter(|seen| following.is_relayed && seen.what == What::Descriptor);
    let described = described.map(|seen| seen.input).min().unwrap_or(u64::MAX);
    for seen in reader.diary.iter().filter(|seen| seen.input <= ended) {
        if seen.from == publisher && seen.epoch == following.epoch && seen.stream == following.stream {
            // Before the account began, readable datagrams preceded the description and could not be used.
            let (is_before, elements) = (seen.input < following.began, seen.elements);
            let was_early = is_before && following.is_whole && seen.input < described;
            // The rest of a sample that the previous account has given up.
            let is_given_up = is_before && is_resumed && seen.position < following.first;
            let way = match (seen.readable, was_early) {
                (true, _) if is_given_up => Way::Early { refused: false },
                // So did the descriptor that names a predecessor, whose account begins with it, if more had arrived
                // already.
                (true, true) if seen.input <= held_from => Way::Early { refused: false },
                (true, _) if is_before && is_elsewhere && seen.input >= held_from => Way::Held { elements },
                (true, _) => Way::Arrived { elements },
                // A damaged datagram opens no stream, and gives no evidence for a publisher that is alive at another
                // address.
                (false, true) if seen.input < known_from => Way::Network,
                // Or it does, if that epoch is over and the others are still asked for their proofs.
                (false, _) if is_before && is_elsewhere && seen.input >= held_from => {
                    Way::Early { refused: true }
                }
                (false, true) => Way::Early { refused: false },
                (false, false) => Way::Damaged,
            };
            note(seen.number, way);
        }
    }
    ways
}
