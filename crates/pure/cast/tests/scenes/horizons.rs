//! Horizons of streams that send nothing: told at every tally, and never before what has arrived.

use core::time::Duration;

use ledger::AccountState;
use sim::{Link, Port};
use units::Instant;

use crate::line::at;
use crate::line::feed::Holes;
use crate::line::publisher::{Command, Publisher};
use crate::line::scene::{EPOCH, StreamShape, accounts, reader, watched_by};

/// Plays a publisher that sends for 2 s and ends at 12 s; returns when horizons were told. The watch compares each of
/// them with the blocks and gaps before it.
fn told(seed: u64, link: Link, commands: Vec<(u64, Command)>) -> Vec<Instant> {
    let shape = StreamShape::PLAIN;
    let feed = shape.feed(EPOCH, Instant::ORIGIN..at(2_000), Holes::NONE);
    let publisher =
        Publisher::new(shape.config(EPOCH), feed, 11, Instant::ORIGIN).told(at(12_000), Command::Finish);
    let publisher = commands.into_iter().fold(publisher, |it, (ms, command)| it.told(at(ms), command));
    let port = Port { down: link, ..Port::default() };
    let (mut network, node) = watched_by(seed, publisher, reader(seed).waiting(), port);
    let accounts = accounts(&mut network, node, at(20_000));
    assert!(accounts.iter().all(|(_, account)| account.state == AccountState::Closed), "seed {seed}");
    network.node(node).reader().watch.followed.iter().flat_map(|it| it.horizons.clone()).collect()
}

#[test]
fn an_idle_stream_tells_its_horizon_at_least_every_second_and_a_flowing_one_does_not() {
    let told = told(1, Link::lan(), Vec::new());
    let (flowing, idle): (Vec<Instant>, Vec<_>) = told.into_iter().partition(|it| *it < at(2_000));
    assert!(flowing.len() <= 1, "before the first sample: {flowing:?}");
    let times = [at(2_000)].into_iter().chain(idle).chain([at(12_000)]).collect::<Vec<_>>();
    let longest = times.windows(2).map(|pair| pair[1].since(pair[0])).max().unwrap();
    assert!(longest <= Duration::from_millis(1_001), "{longest:?}");
}

#[test]
fn no_horizon_overtakes_data_that_are_lost_late_or_held() {
    let mut all = 0;
    for seed in 0..40 {
        let link = Link::lan().loss(0.2).reorder(0.2, Duration::from_millis(40));
        all += told(seed, link, Vec::new()).len();
    }
    assert!(all > 300, "{all} horizons");
}

#[test]
fn a_stream_of_which_only_tallies_arrive_tells_how_far_it_is() {
    let told = told(1, Link::lan(), vec![(500, Command::Inject(1.0))]);
    let lost = told.iter().filter(|it| (at(600)..at(2_000)).contains(it)).count();
    assert!(lost >= 10, "{lost} horizons");
}
