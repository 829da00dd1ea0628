//! Controls: everything that the far end needs of a stream besides its samples, in its order.

use core::ops::Range;

use ledger::{HopCounts, HopShare, MAX_POSITION, Outcome, Stage};

use super::fields::{Reader, Writer};
use super::{MalformedMessage, kind};
use crate::Cause;

/// Code of elements that were lost without evidence in time, where stages have theirs.
const UNEXPLAINED: u8 = 255;
/// Code of elements that wait for evidence.
const UNSETTLED: u8 = 254;

/// A control with its number in the stream, from 0 on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Numbered {
    /// Its number.
    pub number: u64,
    /// The control.
    pub control: Control,
}

/// Message about a stream that is no sample, numbered, and taken in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Control {
    /// First position of the stream on this link: the first control.
    Start {
        /// The position.
        position: u64,
    },
    /// Elements that were missing before the link.
    Missing {
        /// Their positions; not empty.
        positions: Range<u64>,
        /// Hop and outcome of each.
        shares: HopCounts,
    },
    /// Other outcomes of elements that were missing before the link.
    Settled {
        /// Positions as in [`Control::Missing`].
        positions: Range<u64>,
        /// Hop and outcome of each.
        shares: HopCounts,
    },
    /// Elements that do not come.
    GivenUp {
        /// Their positions; not empty.
        positions: Range<u64>,
        /// The cause.
        cause: Cause,
    },
    /// A statement of the stream's publisher or of a relay before, as it came.
    Statement(Vec<u8>),
    /// End of the stream.
    End {
        /// One behind its last position.
        position: u64,
    },
}

impl Control {
    pub(super) const fn kind(&self) -> u8 {
        match self {
            Self::Start { .. } => kind::START,
            Self::Missing { .. } => kind::MISSING,
            Self::Settled { .. } => kind::SETTLED,
            Self::GivenUp { .. } => kind::GIVEN_UP,
            Self::Statement(_) => kind::STATEMENT,
            Self::End { .. } => kind::END,
        }
    }
}

impl Numbered {
    pub(super) fn write(&self, out: &mut Writer) {
        out.u64(self.number);
        match &self.control {
            Control::Start { position } | Control::End { position } => out.u64(*position),
            Control::Missing { positions, shares } | Control::Settled { positions, shares } => {
                write_positions(positions, out);
                for share in shares.shares() {
                    out.u64(share.count);
                    out.u8(share.hop);
                    out.u8(code_of(share.outcome));
                }
            }
            Control::GivenUp { positions, cause } => {
                write_positions(positions, out);
                out.u8(cause.code());
            }
            Control::Statement(bytes) => out.rest(bytes),
        }
    }

    pub(super) fn read(kind: u8, fields: &mut Reader<'_>) -> Result<Self, MalformedMessage> {
        if !(kind::START..=kind::END).contains(&kind) {
            return Err(MalformedMessage::Kind(kind));
        }
        let number = fields.u64()?;
        let control = match kind {
            kind::START => Control::Start { position: read_position(fields)? },
            kind::END => Control::End { position: read_position(fields)? },
            kind::MISSING | kind::SETTLED => {
                let positions = read_positions(fields)?;
                let shares = read_shares(fields, positions.end - positions.start)?;
                if kind == kind::MISSING {
                    Control::Missing { positions, shares }
                } else {
                    Control::Settled { positions, shares }
                }
            }
            kind::GIVEN_UP => {
                let positions = read_positions(fields)?;
                let cause = Cause::from_code(fields.u8()?).ok_or(MalformedMessage::Field("cause"))?;
                Control::GivenUp { positions, cause }
            }
            _ => Control::Statement(fields.rest().to_vec()),
        };
        Ok(Self { number, control })
    }
}

fn write_positions(positions: &Range<u64>, out: &mut Writer) {
    out.u64(positions.start);
    out.u64(positions.end);
}

fn read_position(fields: &mut Reader<'_>) -> Result<u64, MalformedMessage> {
    let position = fields.u64()?;
    if position <= MAX_POSITION { Ok(position) } else { Err(MalformedMessage::Field("position")) }
}

fn read_positions(fields: &mut Reader<'_>) -> Result<Range<u64>, MalformedMessage> {
    let positions = read_position(fields)?..read_position(fields)?;
    if positions.is_empty() { Err(MalformedMessage::Field("range of positions")) } else { Ok(positions) }
}

/// Reads shares up to the end of the message; they add up to `expected`.
fn read_shares(fields: &mut Reader<'_>, expected: u64) -> Result<HopCounts, MalformedMessage> {
    let refused = MalformedMessage::Field("list of shares");
    let mut shares = HopCounts::default();
    let mut left = expected;
    while left > 0 {
        let (count, hop, code) = (fields.u64()?, fields.u8()?, fields.u8()?);
        left = left.checked_sub(count).filter(|_| count > 0 && hop < crate::MAX_HOP).ok_or(refused)?;
        shares.add(HopShare { hop, outcome: outcome_of(code).ok_or(refused)?, count });
    }
    Ok(shares)
}

const fn code_of(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Lost(stage) => stage.code(),
        Outcome::Unexplained => UNEXPLAINED,
        Outcome::Unsettled => UNSETTLED,
    }
}

fn outcome_of(code: u8) -> Option<Outcome> {
    match code {
        UNEXPLAINED => Some(Outcome::Unexplained),
        UNSETTLED => Some(Outcome::Unsettled),
        code => Stage::from_code(code).map(Outcome::Lost),
    }
}
