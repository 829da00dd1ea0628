//! A stream that loses for long: its accounts close, and what its processes hold does not grow.
//!
//! Ten seconds of the stream unless told otherwise: `TALLYCAST_SOAK_SECONDS=1200 cargo xtask test e2e`, or the suite `soak` of a
//! night. The seconds are the stream's, counted in samples.

#![expect(clippy::unwrap_used, reason = "a test that meets `None` or `Err` has failed")]

use e2e::{Accounts, Command, private_bus};

/// Samples a second; two channels of four bytes.
const RATE: u64 = 20_000;
/// Long enough to see that the scene works.
const SECONDS: u64 = 10;
/// How often somebody who watches is told that it goes on, in seconds of the stream.
const TELL: u64 = 60;
/// A ring, of which a busy machine touches every page sooner or later, and as much again for what allocators keep.
const MOST_GROWTH_BYTES: u64 = 128 << 20;
/// What may be open for a moment when it is looked at: a file of the system, a socket that is being closed.
const MOST_MORE_DESCRIPTORS: usize = 4;

fn seconds() -> u64 {
    std::env::var("TALLYCAST_SOAK_SECONDS").map_or(SECONDS, |text| text.parse().expect("a number of seconds"))
}

/// What a process holds.
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
