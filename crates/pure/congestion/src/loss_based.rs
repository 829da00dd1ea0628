//! Controls that grow until packets are lost: they fill the queue before the narrow link.

mod bic;
mod cubic;
mod highspeed;
mod reno;
mod scalable;
mod westwood;

pub(crate) use bic::Bic;
pub(crate) use cubic::Cubic;
pub(crate) use highspeed::HighSpeed;
pub(crate) use reno::Reno;
pub(crate) use scalable::Scalable;
pub(crate) use westwood::Westwood;
