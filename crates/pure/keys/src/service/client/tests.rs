//! Members and a service, with a network between them that loses, repeats and reorders, and clocks that differ.

use std::collections::BTreeMap;

use units::Random;
use zeroize::Zeroizing;

use super::*;
use crate::service::schedule::RETURN_LEAD;
use crate::service::{FUTURE_SECRETS, LEAD, Periods, Schedule};
use crate::{Secret, Suite, Token};

/// UTC of the service at the start.
const START: i64 = 1_700_000_000_000_000_000;
const LIFETIME: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(1);

struct Network {
    now: Instant,
    schedule: Schedule,
    drawn: u32,
    is_away: bool,
    loss: f64,
    repeats: f64,
    disorder_ms: u64,
    random: Random,
    count: u64,
    /// Questions (with their member) and answers on the way, by arrival.
    flying: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    members: Vec<Station>,
}

struct Station {
    client: Client,
    /// How far its UTC is ahead of that of the service. Units: nanoseconds.
    ahead: i64,
    is_removed: bool,
}

impl Network {
    fn new(seed: u64, ahead: &[i64]) -> Self {
        let now = Instant::from_nanos(5);
        let station = |ahead: &i64| Station { client: Client::new(now), ahead: *ahead, is_removed: false };
        let periods = Periods::new(LIFETIME, Duration::from_secs(2)).unwrap();
        let mut network = Self {
            now,
            schedule: Schedule::new(periods, Suite::default()),
            drawn: 0,
            is_away: false,
            loss: 0.0,
            repeats: 0.0,
            disorder_ms: 0,
            random: Random::new(seed),
            count: 0,
            flying: BTreeMap::new(),
            members: ahead.iter().map(station).collect(),
        };
        network.advance();
        network
    }

    fn service_time(&self) -> WallTime {
        WallTime::from_nanos(START + i64::try_from(self.now.as_nanos()).unwrap())
    }

    fn advance(&mut self) {
        let (now, drawn) = (self.service_time(), &mut self.drawn);
        self.schedule.advance(now, || draw(drawn));
    }

    fn remove(&mut self, member: usize) {
        self.members[member].is_removed = true;
        let (now, drawn) = (self.service_time(), &mut self.drawn);
        self.schedule.force(now, || draw(drawn));
    }

    fn held(&self, member: usize) -> (Held, WallTime) {
        let Station { client, ahead, .. } = &self.members[member];
        let wall = self.service_time().offset(*ahead);
        (client.held(self.now, wall), wall)
    }

    fn sends_with(&self, member: usize) -> Option<Token> {
        let (held, wall) = self.held(member);
        held.keys.sending(wall).map(|secret| secret.token)
    }

    fn fly(&mut self, member: usize, bytes: &[u8]) {
        for _ in 0..1 + usize::from(self.random.chance(self.repeats)) {
            if !self.random.chance(self.loss) {
                let delay = Duration::from_millis(1 + self.random.below(self.disorder_ms + 1));
                self.count += 1;
                self.flying.insert((self.now + delay, self.count), (member, bytes.to_vec()));
            }
        }
    }

    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.now < end {
            self.step();
        }
    }

    fn step(&mut self) {
        self.now += STEP;
        if !self.is_away {
            self.advance();
        }
        for member in 0..self.members.len() {
            if let Some(question) = self.members[member].client.poll(self.now) {
                self.fly(member, &question.to_bytes());
            }
        }
        while let Some(entry) = self.flying.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (member, bytes) = entry.remove();
            match Question::from_bytes(&bytes) {
                Ok(question) if !self.is_away => {
                    let answer = self.answer(member, question.number);
                    self.fly(member, &answer.to_bytes());
                }
                Ok(_) => {}
                Err(_) => self.members[member].client.handle(self.now, &bytes).unwrap(),
            }
        }
    }

    fn answer(&self, member: usize, number: u32) -> Answer {
        let now = self.service_time();
        let content = if self.members[member].is_removed {
            Content::Refused(RefusedFor::Removed(now))
        } else {
            Content::Secrets {
                kept: self.schedule.periods().kept(),
                secrets: self.schedule.secrets().to_vec(),
            }
        };
        Answer { number, now, content }
    }

    /// Checks that each member accepts what every other one sends with now; one that sends nothing is an error, too.
    fn all_read_all(&self, members: &[usize]) {
        for sender in members {
            let token = self.sends_with(*sender);
            let token = token.unwrap_or_else(|| panic!("member {sender} does not send at {:?}", self.now));
            for reader in members {
                let (held, _) = self.held(*reader);
                assert!(
                    held.keys.with_token(token).is_some(),
                    "{reader} is blind for {sender} at {:?}",
                    self.now
                );
            }
        }
    }
}

fn draw(count: &mut u32) -> (Token, Secret) {
    *count += 1;
    let mut bytes = [0; 32];
    bytes[..4].copy_from_slice(&count.to_le_bytes());
    (Token(*count), Secret::new(Zeroizing::new(bytes)))
}

const MINUTE: i64 = 60_000_000_000;

#[test]
fn members_read_each_other_through_rotations_whatever_is_lost_and_however_far_clocks_are_apart() {
    for seed in 0..20 {
        let mut network = Network::new(seed, &[0, 7 * MINUTE, -10 * MINUTE, 3_600 * MINUTE]);
        (network.loss, network.repeats, network.disorder_ms) = (0.3, 0.2, 20);
        network.run(Duration::from_secs(5));
        while network.now < Instant::from_nanos(45_000_000_000) {
            network.step();
            network.all_read_all(&[0, 1, 2, 3]);
        }
        assert!(network.drawn > 5, "seed {seed}: there were rotations");
    }
}

#[test]
fn a_clock_that_is_set_changes_nothing() {
    let mut network = Network::new(1, &[0, 0]);
    network.run(Duration::from_secs(1));
    for ahead in [5 * MINUTE, -5 * MINUTE, 100_000 * MINUTE] {
        network.members[1].ahead = ahead;
        for _ in 0..15_000 {
            network.step();
            network.all_read_all(&[0, 1]);
        }
    }
}

#[test]
fn without_the_service_members_go_on_for_two_lifetimes_and_then_stop_until_it_is_back() {
    for seed in 0..10 {
        let mut network = Network::new(seed, &[0, 3 * MINUTE]);
        network.run(Duration::from_secs(1) + STEP * u32::try_from(seed * 900).unwrap());
        network.is_away = true;
        let left = network.held(0).0.left.unwrap();
        assert!(left > LIFETIME * u32::try_from(FUTURE_SECRETS).unwrap(), "{left:?}");
        let end = network.now + left - Duration::from_millis(5);
        while network.now < end {
            network.step();
            network.all_read_all(&[0, 1]);
        }
        network.run(Duration::from_millis(10));
        assert_eq!((network.sends_with(0), network.sends_with(1)), (None, None));
        assert!(network.held(0).0.keys.iter().count() == 1, "what is on the way is still read");
        network.run(LIFETIME);
        assert_eq!(network.held(0).0, Held { keys: KeySet::default(), left: None });
        assert!(network.members[0].client.waiting_since().is_some());
        network.is_away = false;
        let back = network.now;
        while network.now < back + MAX_RETRY + Duration::from_millis(10) {
            network.step();
            assert_eq!((network.sends_with(0), network.sends_with(1)), (None, None), "readers come first");
        }
        assert_eq!(network.members[0].client.waiting_since(), None);
        network.run(RETURN_LEAD);
        network.all_read_all(&[0, 1]);
    }
}

#[test]
fn one_lifetime_without_the_service_is_not_noticed() {
    let mut network = Network::new(3, &[0, -MINUTE]);
    network.run(Duration::from_secs(4));
    network.is_away = true;
    for away in [true, false] {
        network.is_away = away;
        let end = network.now + LIFETIME;
        while network.now < end {
            network.step();
            network.all_read_all(&[0, 1]);
        }
    }
}

#[test]
fn a_removed_member_is_blind_within_a_second_is_told_and_the_others_miss_nothing() {
    for seed in 0..20 {
        let mut network = Network::new(seed, &[0, 2 * MINUTE, 0]);
        network.run(Duration::from_millis(1_000 + 37 * seed));
        let (stolen, _) = network.held(2);
        (network.loss, network.repeats, network.disorder_ms) = (0.05, 0.1, 5);
        network.remove(2);
        let removed = network.now;
        let mut blind = None;
        while network.now < removed + Duration::from_secs(5) {
            network.step();
            network.all_read_all(&[0, 1]);
            let reads = [0, 1]
                .map(|it| network.sends_with(it).unwrap())
                .map(|it| stolen.keys.with_token(it).is_some());
            if reads == [false, false] {
                blind.get_or_insert(network.now.since(removed));
            } else {
                assert_eq!(blind, None, "seed {seed}: it reads again");
            }
        }
        assert!(blind.unwrap() <= LEAD + Duration::from_millis(20), "seed {seed}: {blind:?}");
        assert!(matches!(network.members[2].client.refused(), Some(RefusedFor::Removed(_))));
        assert_eq!(network.sends_with(2), None, "it sends nothing any more");
    }
}

/// Returns how long each of many new members waits for its secrets, the shortest time first.
fn waits(loss: f64) -> Vec<Duration> {
    let mut waits: Vec<Duration> = (0..1_000)
        .map(|seed| {
            let mut network = Network::new(seed, &[7 * MINUTE]);
            (network.loss, network.disorder_ms) = (loss, 2);
            let began = network.now;
            while network.sends_with(0).is_none() {
                network.step();
            }
            network.now.since(began)
        })
        .collect();
    waits.sort();
    waits
}

#[test]
fn a_new_member_has_secrets_at_once_and_in_200_ms_though_30_percent_is_lost() {
    assert!(waits(0.0)[999] <= Duration::from_millis(10));
    let lossy = waits(0.3);
    assert!(lossy[500] <= Duration::from_millis(40), "{:?}", lossy[500]);
    assert!(lossy[985] <= Duration::from_millis(200), "{:?}", lossy[985]);
}

#[test]
fn an_unknown_secret_is_asked_for_at_once_but_forged_ones_cost_a_question_in_20_ms() {
    let mut network = Network::new(4, &[0]);
    network.run(Duration::from_secs(1));
    let before = network.members[0].client.number;
    for _ in 0..1_000 {
        let now = network.now;
        (0..100).for_each(|_| network.members[0].client.hurry(now));
        network.step();
    }
    let asked = network.members[0].client.number - before;
    assert!((45..=50).contains(&asked), "{asked}");
    network.run(Duration::from_millis(10));
    let asked = network.members[0].client.asked.unwrap();
    assert_eq!(network.members[0].client.next_question(), asked + ASK_INTERVAL);
    network.members[0].client.hurry(asked + Duration::from_millis(100));
    assert_eq!(network.members[0].client.next_question(), asked + Duration::from_millis(100));
}

#[test]
fn a_question_is_repeated_ever_more_slowly_and_never_given_up() {
    let mut client = Client::new(Instant::from_nanos(0));
    let mut asked = Vec::new();
    for millis in 0..10_000 {
        let now = Instant::from_nanos(millis * 1_000_000);
        if client.poll(now).is_some() {
            asked.push(millis);
        }
    }
    let pauses: Vec<u64> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses[..13], [25, 25, 25, 25, 25, 25, 25, 50, 100, 200, 400, 500, 500]);
    assert!(pauses[13..].iter().all(|pause| *pause == 500));
    assert_eq!(client.unanswered(), asked.len() as u64 - 1);
}

#[test]
fn answers_that_were_not_asked_for_or_come_late_have_no_effect() {
    let mut network = Network::new(5, &[0]);
    let old = network.answer(0, 1).to_bytes();
    network.run(Duration::from_secs(1));
    let (held, before) = (network.held(0).0, network.members[0].client.number);
    let now = network.now;
    let refused =
        |number| Answer { number, now: WallTime::default(), content: Content::Refused(RefusedFor::Unknown) };
    for number in [0, 1, before, before + 1, u32::MAX] {
        network.members[0].client.handle(now, &refused(number).to_bytes()).unwrap();
    }
    network.members[0].client.handle(now, &old).unwrap();
    assert_eq!(network.held(0).0, held);
    assert!(network.members[0].client.handle(now, &[7; 30]).is_err());
}
