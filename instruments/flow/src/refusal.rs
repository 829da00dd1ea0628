//! Stage of an account to which a datagram refused by a socket belongs.

use ledger::Stage;
use sys::Refusal;

/// Returns the stage of a refusal.
pub(crate) const fn stage_of(refusal: Refusal) -> Stage {
    match refusal {
        Refusal::SocketFull => Stage::SenderSocket,
        Refusal::QueueDiscipline => Stage::SenderQdisc,
        // Also a datagram that is too large: the route refuses it.
        _ => Stage::SenderIp,
    }
}
