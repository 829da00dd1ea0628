//! At which stage of an account a datagram that a socket refused is lost.

use ledger::Stage;
use sys::Refusal;

/// Returns the stage of a refusal.
pub(crate) const fn stage_of(refusal: Refusal) -> Stage {
    match refusal {
        Refusal::SocketFull => Stage::SenderSocket,
        Refusal::QueueDiscipline => Stage::SenderQdisc,
        // Also what is too large: it is the route that says so.
        _ => Stage::SenderIp,
    }
}
