//! Leases and kill switches of an app: who asks, whether a rule allows it, and the record of it.

use access::May;
use units::Instant;

use super::{App, MAX_UNWRITTEN};
use crate::command::MAX_REASON_BYTES;
use crate::lease::{Granted, LeaseError};
use crate::record::{LeaseChange, Record};
use crate::switch::{Hand, Scope, SwitchError, Switches};
use crate::{Needs, SessionId};

impl App {
    /// Grants the lease of a group, or renews it for its holder; renewals are not logged.
    ///
    /// # Errors
    /// `Group`, `Session`, `ReadOnly`, `Held` and `Busy` of [`LeaseError`].
    pub fn lease(&mut self, now: Instant, session: SessionId, group: &str) -> Result<Granted, LeaseError> {
        self.check_group(session, group)?;
        match self.leases.holder(now, group) {
            Some(holder) if holder == session => return Ok(self.leases.grant(now, group, session)),
            Some(holder) => {
                return Err(LeaseError::Held { group: group.to_owned(), by: self.sender(holder) });
            }
            None => {}
        }
        self.change_lease(group, session, LeaseChange::Granted)?;
        Ok(self.leases.grant(now, group, session))
    }

    /// Releases the lease of a group.
    ///
    /// # Errors
    /// `NotHolder` of [`LeaseError`].
    pub fn release(&mut self, now: Instant, session: SessionId, group: &str) -> Result<(), LeaseError> {
        if self.leases.holder(now, group) != Some(session) {
            return Err(LeaseError::NotHolder(group.to_owned()));
        }
        self.leases.release(group);
        self.record_lease(group, session, LeaseChange::Released);
        Ok(())
    }

    /// Takes over the lease of a group, for an administrator with a reason. Commands of the former holder that wait
    /// are refused at the next step.
    ///
    /// # Errors
    /// `Group`, `Session`, `ReadOnly`, `Administrator`, `Reason` and `Busy` of [`LeaseError`].
    pub fn take_over(
        &mut self,
        now: Instant,
        session: SessionId,
        group: &str,
        reason: &str,
    ) -> Result<Granted, LeaseError> {
        self.check_group(session, group)?;
        if !self.may(session, May::Administer) {
            return Err(LeaseError::Administrator);
        }
        if !is_reason(reason) {
            return Err(LeaseError::Reason);
        }
        let from = self.leases.holder(now, group).map(|holder| self.sender(holder)).unwrap_or_default();
        self.change_lease(group, session, LeaseChange::TakenOver { from, reason: reason.to_owned() })?;
        Ok(self.leases.grant(now, group, session))
    }

    /// Returns the holder of a group's lease at `now`, as the access file names it.
    #[must_use]
    pub fn lease_holder(&self, now: Instant, group: &str) -> Option<String> {
        self.leases.holder(now, group).map(|holder| self.sender(holder))
    }

    /// Turns a kill switch on: from now on no command takes effect. An effect that was handed out before is not
    /// recalled.
    ///
    /// # Errors
    /// `Session`, `ReadOnly` and `Reason` of [`SwitchError`]; never with [`Hand::Host`] and a reason.
    pub fn stop(&mut self, hand: Hand, scope: Scope, reason: &str) -> Result<(), SwitchError> {
        self.turn(hand, scope, reason, true)
    }

    /// Turns a kill switch off, for an administrator or the app's own code.
    ///
    /// # Errors
    /// `Session`, `Administrator` and `Reason` of [`SwitchError`].
    pub fn resume(&mut self, hand: Hand, scope: Scope, reason: &str) -> Result<(), SwitchError> {
        self.turn(hand, scope, reason, false)
    }

    /// Returns the kill switches.
    #[must_use]
    pub const fn switches(&self) -> Switches {
        self.switches
    }

    fn turn(&mut self, hand: Hand, scope: Scope, reason: &str, is_on: bool) -> Result<(), SwitchError> {
        let by = match hand {
            Hand::Host => "host".to_owned(),
            Hand::Session(session) => {
                let (may, error) = if is_on {
                    (May::Steer, SwitchError::ReadOnly)
                } else {
                    (May::Administer, SwitchError::Administrator)
                };
                if !self.sessions.contains_key(&session) {
                    return Err(SwitchError::Session(session));
                }
                if !self.may(session, may) {
                    return Err(error);
                }
                self.sender(session)
            }
        };
        if !is_reason(reason) {
            return Err(SwitchError::Reason);
        }
        if self.switches.turn(scope, is_on) {
            self.write(Record::Switch { scope, is_on, by, reason: reason.to_owned() });
        }
        Ok(())
    }

    /// Returns whether a session may do something with the app as a whole.
    fn may(&self, session: SessionId, may: May) -> bool {
        let principal = self.sessions.get(&session).map(|it| &it.principal);
        principal.is_some_and(|it| self.config.policy.decide(it, may, &self.config.app).is_allowed)
    }

    /// Checks that a group exists and that the session may steer a parameter of it.
    fn check_group(&self, session: SessionId, group: &str) -> Result<(), LeaseError> {
        let needs = Needs::Lease { group: group.to_owned() };
        let mut members = self.parameters.iter().filter(|held| held.parameter.needs == needs).peekable();
        members.peek().ok_or_else(|| LeaseError::Group(group.to_owned()))?;
        let principal = self.sessions.get(&session).map(|it| &it.principal);
        let principal = principal.ok_or(LeaseError::Session(session))?;
        let policy = &self.config.policy;
        if members.any(|held| policy.decide(principal, May::Steer, &held.path).is_allowed) {
            Ok(())
        } else {
            Err(LeaseError::ReadOnly(group.to_owned()))
        }
    }

    fn change_lease(
        &mut self,
        group: &str,
        session: SessionId,
        change: LeaseChange,
    ) -> Result<(), LeaseError> {
        if self.next_record - self.written >= MAX_UNWRITTEN {
            return Err(LeaseError::Busy);
        }
        self.record_lease(group, session, change);
        Ok(())
    }

    pub(super) fn record_lease(&mut self, group: &str, session: SessionId, change: LeaseChange) {
        let by = self.sender(session);
        self.write(Record::Lease { group: group.to_owned(), by, change });
    }
}

fn is_reason(text: &str) -> bool {
    (1..=MAX_REASON_BYTES).contains(&text.len())
}

#[cfg(test)]
mod tests;
