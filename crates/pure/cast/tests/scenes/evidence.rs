//! Skip on evidence: the cost of loss and reordering beyond the datagrams themselves.
//!
//! A known weakness of other systems: a receiver that waits by a timer for datagrams that will never arrive turns 0.3
//! % of loss into whole per cents and seconds of delay. Here a lost datagram costs its own samples, and a delay of
//! those behind it until a few more have arrived.

use core::time::Duration;

use ledger::Stage;
use sim::{Link, Port};
use units::Instant;

use crate::line::at;
use crate::line::feed::Holes;
use crate::line::scene::{EPOCH, StreamShape, accounts, publisher, watched};
use crate::line::watch::AddedDelay;

/// Duration of each cell of the table: 20,000 datagrams. Units: milliseconds.
const FED: u64 = 20_000;

/// A cell of the table.
struct Cell {
    arrived: f64,
    lost_by_network: f64,
    late: f64,
    gaps: usize,
    window: u32,
    delays: Vec<AddedDelay>,
}

fn play(loss: f64, reorder: f64, by: Duration) -> Cell {
    let publisher = publisher(&StreamShape::PLAIN, EPOCH, Instant::ORIGIN..at(FED), Holes::NONE);
    let down = Link::lan().loss(loss).reorder(reorder, by);
    let (mut network, node) = watched(5, publisher, Port { down, ..Port::default() });
    network.run_until(at(FED + 90));
    let window = network.node(node).reader().receiver.accounts().next().expect("an account").reorder_count;
    let (truth, account) = accounts(&mut network, node, at(FED + 15_000)).remove(0);
    let rows = account.datagrams.expect("a socket");
    let per_cent = |part: u64, whole: u64| part as f64 * 100.0 / whole as f64;
    let offered = account.elements.next - account.elements.first;
    let mut delays = network.node(node).reader().watch.followed[0].delays.clone();
    delays.sort_unstable();
    Cell {
        arrived: per_cent(account.elements.delivered, offered),
        lost_by_network: per_cent(truth.network, rows.next - rows.first),
        late: per_cent(account.elements.lost[Stage::Late], offered),
        gaps: account.gaps.len(),
        window,
        delays,
    }
}

impl Cell {
    fn delay(&self, share: f64) -> AddedDelay {
        self.delays[((self.delays.len() - 1) as f64 * share) as usize]
    }

    fn most_datagrams(&self) -> u64 {
        self.delays.iter().map(|delay| delay.datagrams).max().unwrap_or(0)
    }
}

#[test]
fn loss_costs_its_own_elements_and_reordering_a_short_wait() {
    let mut table = String::from(
        "A datagram of 10 elements every 1 ms, 20,000 of them. Added delay: from arrival to hand-over.\n\n\
         loss %  reordered      | lost %  arrived %  late %  gaps  window | delay p50 / p99 / max ms  max datagrams\n",
    );
    for loss in [0.0, 0.003, 0.01, 0.03] {
        for (share, millis) in [(0.0, 0), (0.01, 2), (0.01, 10), (0.05, 10)] {
            let cell = play(loss, share, Duration::from_millis(millis));
            let millis_of = |share| cell.delay(share).nanos as f64 / 1e6;
            let reordered = if share == 0.0 {
                "none".to_owned()
            } else {
                format!("{:.0} % by {millis} ms", share * 100.0)
            };
            table.push_str(&format!(
                "{:>6.1}  {reordered:<13}  | {:>6.2}  {:>9.2}  {:>6.2}  {:>4}  {:>6} | {:>9.1} / {:>4.1} / {:>4.1}  {:>17}\n",
                loss * 100.0,
                cell.lost_by_network,
                cell.arrived,
                cell.late,
                cell.gaps,
                cell.window,
                millis_of(0.5),
                millis_of(0.99),
                millis_of(1.0),
                cell.most_datagrams(),
            ));
            if share == 0.0 {
                let own = 100.0 - cell.arrived - cell.lost_by_network;
                assert!(own.abs() < 0.05, "the machine lost {own} % of its own at {loss}");
                assert!(cell.most_datagrams() <= 3, "a wait beyond the reordering window");
                // Three that arrive, and those lost among them.
                assert!(millis_of(1.0) <= 8.0);
            }
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn at_0_3_per_cent_of_loss_99_69_per_cent_arrive() {
    // 100,000 datagrams, so that chance is small compared with the limit.
    let shape = StreamShape { hz: 100_000, ..StreamShape::PLAIN };
    let publisher = publisher(&shape, EPOCH, Instant::ORIGIN..at(10_000), Holes::NONE);
    let down = Link::lan().loss(0.003);
    let (mut network, node) = watched(4, publisher, Port { down, ..Port::default() });
    let (truth, account) = accounts(&mut network, node, at(20_000)).remove(0);
    assert_eq!(account.elements.delivered, truth.arrived_elements, "the machine loses nothing of its own");
    let arrived = account.elements.delivered as f64 / 1e6;
    assert!(arrived >= 0.9969, "{arrived}");
    let delays = &network.node(node).reader().watch.followed[0].delays;
    assert!(delays.iter().all(|delay| delay.datagrams <= 3), "three later ones are the evidence");
}
