//! What the two ends of a control connection say to each other, whatever is measured.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of everything that is said; ends that speak different ones do not measure together.
///
/// Every change of what either end says or understands raises it, by one, in the same commit: a field of a message, of a
/// test's parameters or words, of [`HostState`](crate::HostState), or what one of them means. There are no changes that an
/// older end may overlook. So that ends of all versions can tell each other which they speak, [`Message::Hello`] and
/// [`Message::Welcome`] keep `protocol` and `tallycast` for ever, and are understood whatever else is in them.
///
/// 1: as it was first written. 2: offloads and path MTU of hosts; processors, load and trains in runs of throughput; members
/// of a group by their number; processor times of capacity without the tail.
pub const PROTOCOL: u32 = 2;

/// One message.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// The client's first word.
    Hello {
        /// [`PROTOCOL`].
        protocol: u32,
        /// The version of its program.
        tallycast: String,
    },
    /// The server's first word.
    Welcome {
        /// [`PROTOCOL`].
        protocol: u32,
        /// The version of its program.
        tallycast: String,
        /// Where it runs: a [`HostState`](crate::HostState), which is looked at once the versions are known to be one.
        host: Value,
    },
    /// Instead of a welcome: the server is measuring with somebody else.
    Busy {
        /// With whom.
        with: String,
    },
    /// What is to be measured.
    Begin {
        /// The name of the test.
        test: String,
        /// As the test has them.
        parameters: Value,
    },
    /// Something that only the test understands.
    Word(Value),
    /// An end cannot go on.
    Failed {
        /// Why, and the way out.
        reason: String,
    },
    /// Nothing to say, but still there.
    Alive,
    /// That was all.
    Bye,
}
