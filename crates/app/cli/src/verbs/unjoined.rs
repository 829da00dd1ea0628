//! Requested streams that could not be joined: listed at the end of a command, which then has exit code 1.

use tallycast::Node;

/// Lists the streams that could not be joined; returns whether there were none.
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
