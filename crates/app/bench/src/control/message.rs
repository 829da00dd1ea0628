//! What the two ends of a control connection say to each other, whatever is measured.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::host_state::HostState;

/// The version of everything that is said; ends that speak different ones do not measure together.
pub const PROTOCOL: u32 = 1;

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
        /// Where it runs.
        host: Box<HostState>,
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
