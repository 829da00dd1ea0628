//! Local users: name, role and password hash.

use std::collections::BTreeMap;

use access::{Principal, PrincipalName, Role};
use serde::{Deserialize, Serialize};

use crate::{Digest, PasswordHash};

/// The most local users; larger sites have a provider.
const MAX_USERS: usize = 10_000;

/// The local users, as the file `users` holds them.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Users {
    #[serde(default)]
    user: BTreeMap<PrincipalName, User>,
}

/// A local user.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// The role: what the user may do where no access file decides, and for rules with `role:`.
    pub role: Role,
    /// The hash of the password.
    pub password: PasswordHash,
    /// How often all sessions of the user were ended.
    #[serde(default, skip_serializing_if = "is_never")]
    signed_out: u32,
}

/// Reason why a change of the users is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UserError {
    /// There is such a user already.
    #[error("the user `{0}` exists\nnew password: tallycast access user password {0}")]
    Exists(PrincipalName),
    /// There is no such user.
    #[error("no user is named `{0}`\nlist them: tallycast access user list")]
    Unknown(PrincipalName),
    /// A name that a provider's users have.
    #[error("`{0}` could be the name of a provider's user\nchoose a name without @ and / for a local user")]
    Foreign(PrincipalName),
    /// Too many users.
    #[error("there are {MAX_USERS} local users already\nsign in through a provider instead")]
    TooMany,
}

impl User {
    /// Makes a user.
    #[must_use]
    pub const fn new(role: Role, password: PasswordHash) -> Self {
        Self { role, password, signed_out: 0 }
    }

    /// Ends the sessions that the user has at any service, once that has read the file again.
    pub const fn sign_out(&mut self) {
        self.signed_out = self.signed_out.wrapping_add(1);
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_never(count: &u32) -> bool {
    *count == 0
}

impl Users {
    /// Adds a user.
    ///
    /// # Errors
    /// If the name is taken or a provider's, or there are too many users.
    pub fn add(&mut self, name: PrincipalName, user: User) -> Result<(), UserError> {
        if !Self::is_local_name(&name) {
            return Err(UserError::Foreign(name));
        }
        if self.user.contains_key(&name) {
            return Err(UserError::Exists(name));
        }
        if self.user.len() == MAX_USERS {
            return Err(UserError::TooMany);
        }
        self.user.insert(name, user);
        Ok(())
    }

    /// Returns whether a name can be a local user's; a provider's has an `@` or a `/`, so that rules tell them apart.
    #[must_use]
    pub fn is_local_name(name: &PrincipalName) -> bool {
        !name.as_str().contains(['@', '/'])
    }

    /// Removes a user.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn remove(&mut self, name: &PrincipalName) -> Result<(), UserError> {
        self.user.remove(name).map(drop).ok_or_else(|| UserError::Unknown(name.clone()))
    }

    /// Returns a user for a change of role or password.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn change(&mut self, name: &PrincipalName) -> Result<&mut User, UserError> {
        self.user.get_mut(name).ok_or_else(|| UserError::Unknown(name.clone()))
    }

    /// Returns a user.
    #[must_use]
    pub fn get(&self, name: &PrincipalName) -> Option<&User> {
        self.user.get(name)
    }

    /// Returns the users, by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&PrincipalName, &User)> {
        self.user.iter()
    }

    /// Returns a user as a principal.
    #[must_use]
    pub fn principal(&self, name: &PrincipalName) -> Option<Principal> {
        self.get(name).map(|user| Principal::user(name.clone()).with_role(Some(user.role)))
    }

    /// Returns the mark of a user's sessions, which changes with the password and when they are ended; `None` if there
    /// is no such user.
    pub(crate) fn mark(&self, name: &PrincipalName) -> Option<Digest> {
        self.get(name)
            .map(|user| Digest::of(&format!("{} {}", Digest::of(user.password.as_str()), user.signed_out)))
    }

    /// Checks what reading does not: names and number.
    pub(crate) fn check(&self) -> Result<(), UserError> {
        if self.user.len() > MAX_USERS {
            return Err(UserError::TooMany);
        }
        let foreign = self.user.keys().find(|name| name.as_str().contains(['@', '/']));
        foreign.map_or(Ok(()), |name| Err(UserError::Foreign(name.clone())))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Cost, Secret};

    /// Makes a user whose password costs little.
    pub(crate) fn user(role: Role, password: &str) -> User {
        User::new(role, PasswordHash::new(&Secret::new(password.to_owned()), Cost::Least).unwrap())
    }

    fn name(text: &str) -> PrincipalName {
        text.parse().unwrap()
    }

    #[test]
    fn users_are_added_changed_and_removed_once() {
        let (mut users, ada) = (Users::default(), name("ada"));
        assert_eq!(users.remove(&ada), Err(UserError::Unknown(ada.clone())));
        assert_eq!(users.mark(&ada), None);
        users.add(ada.clone(), user(Role::Viewer, "the first password")).unwrap();
        assert_eq!(
            users.add(ada.clone(), user(Role::Viewer, "the first password")),
            Err(UserError::Exists(ada.clone()))
        );
        let before = users.mark(&ada);
        users.change(&ada).unwrap().password = user(Role::Viewer, "the first password").password;
        assert!(before.is_some() && users.mark(&ada) != before);
        users.change(&ada).unwrap().role = Role::Operator;
        assert_eq!(users.principal(&ada).unwrap().role(), Some(Role::Operator));
        users.remove(&ada).unwrap();
        assert_eq!(users.principal(&ada), None);
    }

    #[test]
    fn a_local_user_cannot_be_named_like_a_providers() {
        for foreign in ["ada@example.org", "plant/ada"] {
            let error = Users::default().add(name(foreign), user(Role::Viewer, "the first password"));
            assert_eq!(error, Err(UserError::Foreign(name(foreign))));
        }
    }
}
