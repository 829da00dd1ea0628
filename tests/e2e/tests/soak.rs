//! A stream with losses over a long time: its accounts close, and the memory and descriptors of its processes do
//! not grow.
//!
//! Ten seconds of the stream by default: `TALLYCAST_SOAK_SECONDS=1200 cargo xtask test e2e`, or the nightly suite
//! `soak`, run longer. The seconds are the stream's, counted in samples.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

use e2e::{Accounts, Command, private_bus};

/// Samples per second, of two channels of four bytes.
const RATE: u64 = 20_000;
/// Default duration in seconds, long enough to show that the scene works.
const SECONDS: u64 = 10;
/// Interval of progress reports, in seconds of the stream.
const TELL: u64 = 60;
/// Maximum growth of memory: a ring, of which a busy machine touches every page sooner or later, and as much again
/// for the allocators.
const MOST_GROWTH_BYTES: u64 = 128 << 20;
/// Maximum number of descriptors that may be open at the moment of the check: a system file, a socket being closed.
const MOST_MORE_DESCRIPTORS: usize = 4;

fn seconds() -> u64 {
    std::env::var("TALLYCAST_SOAK_SECONDS").map_or(SECONDS, |text| text.parse().expect("a number of seconds"))
}

/// Memory and descriptors of a process.
#[derive(Clone, Copy, Debug)]
struct Held {
    memory_bytes: u64,
    descriptors: usize,
}

impl Held {
    fn by(process: &Command) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a process that runs");
        let kilobytes: u64 = line.split_whitespace().next().unwrap().parse().unwrap();
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", process.id())).unwrap().count();
        Self { memory_bytes: kilobytes * 1024, descriptors }
    }

    fn check_growth_to(self, later: Self, who: &str) {
        let is_bounded = later.memory_bytes <= self.memory_bytes + MOST_GROWTH_BYTES
            && later.descriptors <= self.descriptors + MOST_MORE_DESCRIPTORS;
        assert!(is_bounded, "{who} held {self:?} after a third of the time, and {later:?} in the end");
    }
}

#[test]
fn a_long_stream_with_losses_closes_its_accounts_and_its_processes_do_not_grow() {
    let bus = private_bus();
    let seconds = seconds();
    let rate = RATE.to_string();
    let wave = ["pub", "lab/wave", "--wave", "sine", "--rate", &rate, "--channels", "2", "--dtype", "f4"];
    let publisher = Command::start_here(&[&wave[..], &["--loss", "1%", "--json", "--bus", &bus]].concat());
    let read = |name| {
        Command::start_here(&["sub", "lab/*", "--start", "now", "--json", "--reader", name, "--bus", &bus])
    };
    let [first, second] = ["first", "second"].map(read);
    let join = |reader: &Command| reader.wait_for_event("began")["first_index"].as_u64().unwrap();
    let begin = join(&first).max(join(&second));

    let mut early = None;
    // Second by second: a wait for a sample far away would outlast the watchdog.
    for second_of_stream in 0..seconds {
        let index = begin + second_of_stream * RATE;
        first.wait_for_sample(index);
        second.wait_for_sample(index);
        if second_of_stream == seconds / 3 {
            early = Some([&publisher, &first, &second].map(Held::by));
        }
        if second_of_stream % TELL == 0 {
            println!("{second_of_stream} of {seconds} s");
        }
    }
    let early = early.expect("a third of the time is before its end");
    let later = [&publisher, &first, &second].map(Held::by);
    for (who, (early, later)) in ["the publisher", "a reader", "a reader"].iter().zip(early.iter().zip(later))
    {
        early.check_growth_to(later, who);
    }

    let (_, status) = publisher.interrupt();
    assert!(status.success(), "the publisher ended with {status}");
    for accounts in [first, second].map(Accounts::once_closed) {
        assert_eq!(accounts.last()["explained"], true, "{accounts}");
        assert!(accounts.lost("elements")["injected"] > 0, "a hundredth was to be lost: {accounts}");
    }
}
