//! The list of peers that a relay hears, which may change while it runs.

use std::collections::BTreeSet;
use std::time::Duration;

use engine::ReliablePort;
use tallycast::udt::PublicKey;
use units::Instant;

use crate::notice::Notice;

/// Returns the listed peers if they have changed, or why a change cannot be taken up; each once.
pub type ListedPeers = Box<dyn FnMut() -> Option<Result<BTreeSet<PublicKey>, String>> + Send>;

/// Interval of looks at the list.
const LOOK: Duration = Duration::from_millis(200);

/// A list of peers that is followed, and a count of strangers.
#[derive(Default)]
pub(crate) struct Peers {
    list: Option<ListedPeers>,
    next_look: Option<Instant>,
    /// True once it was reported that strangers try to connect.
    are_strangers_told: bool,
}

impl Peers {
    /// Follows a list.
    pub(crate) fn follow(&mut self, list: ListedPeers) {
        self.list = Some(list);
    }

    /// Takes up a changed list; returns it.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        port: &ReliablePort,
        take: &mut dyn FnMut(Notice),
    ) -> Option<BTreeSet<PublicKey>> {
        if self.next_look.is_some_and(|next| now < next) {
            return None;
        }
        self.next_look = Some(now + LOOK);
        let turned_away = turned_away(port);
        if turned_away > 0 && !std::mem::replace(&mut self.are_strangers_told, true) {
            let what = "a station that is not among the listed peers, or has no key, tries to connect; it gets no answer\n\
                        list it with `tallycast keys peers` if it is meant to"
                .to_owned();
            take(Notice::Warning { what });
        }
        match self.list.as_mut()?()? {
            Ok(listed) => {
                port.relist(&listed);
                take(Notice::Relisted { peers: listed.len() });
                Some(listed)
            }
            Err(error) => {
                take(Notice::Warning { what: format!("the peers listed before stay listed: {error}") });
                None
            }
        }
    }
}

/// Returns the number of handshakes and datagrams that came from others than listed peers, and got no answer.
pub(crate) fn turned_away(port: &ReliablePort) -> u64 {
    port.session_stats()
        .map_or(0, |stats| stats.unknown_peers + stats.strangers + stats.bad_handshakes + stats.clear)
}
