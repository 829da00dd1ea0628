//! Streams that a command wanted and could not join: named at its end, which then has exit code 1.

use tallycast::Node;

/// Names the streams that could not be joined; tells whether there were none.
pub(crate) fn say(node: &Node) -> bool {
    let unjoined = node.unjoined();
    for (stream, why) in &unjoined.named {
        eprintln!("{stream}: cannot join: {why}");
    }
    if unjoined.beyond > 0 {
        eprintln!("and {} more streams could not be joined", unjoined.beyond);
    }
    unjoined.named.is_empty() && unjoined.beyond == 0
}
