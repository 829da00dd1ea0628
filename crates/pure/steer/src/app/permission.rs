//! Rules that a command must pass, when it arrives and again at its step boundary.

use access::May;
use units::Instant;

use super::App;
use crate::{Command, Needs, Rule};

impl App {
    /// Checks what can be told when a command arrives, and returns the position of its parameter.
    pub(super) fn permitted(&self, now: Instant, command: &Command) -> Result<usize, Rule> {
        if self.switches.is_stopped() {
            return Err(Rule::Stopped);
        }
        let session = self.sessions.get(&command.session).ok_or(Rule::Session)?;
        let position = *self.by_name.get(&command.parameter).ok_or(Rule::Parameter)?;
        let held = &self.parameters[position];
        let may = |may: May| self.config.policy.decide(&session.principal, may, &held.path).is_allowed;
        if !may(May::Steer) || !may(held.parameter.who) {
            return Err(Rule::ReadOnly);
        }
        if let Needs::Lease { group } = &held.parameter.needs
            && self.leases.holder(now, group) != Some(command.session)
        {
            return Err(Rule::Lease);
        }
        held.parameter.check(&command.value)?;
        Ok(position)
    }

    /// Checks a command at its step boundary, when the present value and revision are known.
    pub(super) fn permitted_now(&self, now: Instant, command: &Command) -> Result<usize, Rule> {
        let position = self.permitted(now, command)?;
        let held = &self.parameters[position];
        if command.if_revision.is_some_and(|revision| revision != held.revision) {
            return Err(Rule::Revision);
        }
        if !held.is_read && held.parameter.greatest_step.is_some() {
            return Err(Rule::Unread);
        }
        held.parameter.check_step(&held.value, &command.value)?;
        Ok(position)
    }
}
