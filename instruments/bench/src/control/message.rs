//! Messages between the two ends of a control connection, for every kind of test.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Version of all messages; ends with different versions do not measure together.
///
/// Every change of what either end sends or understands raises it, by one, in the same commit: a field of a
/// message, of a test's parameters or messages, of [`HostState`](crate::HostState), or the meaning of one of
/// them. There are no changes that an older end may overlook. So that ends of all versions can exchange their
/// versions, [`Message::Hello`] and [`Message::Welcome`] keep `protocol` and `tallycast` for ever, and are
/// understood whatever else is in them.
///
/// 1: the first version. 2: offloads and path MTU of hosts; processors, load and trains in runs of throughput;
/// members of a group by their number; processor times of capacity without the tail. 3: percentiles of delays in runs of
/// throughput; multicast is measured in such runs. 4: the group may be of IPv6, and is null without multicast.
pub const PROTOCOL: u32 = 4;

/// One message.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// The client's first message.
    Hello {
        /// [`PROTOCOL`].
        protocol: u32,
        /// Version of its program.
        tallycast: String,
    },
    /// The server's first message.
    Welcome {
        /// [`PROTOCOL`].
        protocol: u32,
        /// Version of its program.
        tallycast: String,
        /// Its host: a [`HostState`](crate::HostState), which is read once the versions are known to be equal.
        host: Value,
    },
    /// Sent instead of a welcome: the server is measuring with another client.
    Busy {
        /// The other client.
        with: String,
    },
    /// The test to begin.
    Begin {
        /// The name of the test.
        test: String,
        /// Parameters in the form of the test.
        parameters: Value,
    },
    /// A message that only the test understands.
    Word(Value),
    /// An end cannot continue.
    Failed {
        /// The cause, and the remedy.
        reason: String,
    },
    /// A heartbeat.
    Alive,
    /// The end of the session.
    Bye,
}
