//! Rules of access: which principal may do what, with which streams, and the line that decides.
//!
//! Start with [`Policy`], which an access file is parsed into, and [`Policy::decide`]. Proving who somebody is, by
//! passwords, tokens or keys, is the business of the callers.

mod may;
mod name;
mod policy;
mod principal;
mod spelling;

pub use may::{May, MaySet, Role, UnknownWord};
pub use name::{InvalidPrincipalName, MAX_PRINCIPAL_NAME_BYTES, PrincipalName};
pub use policy::{
    Decision, Ground, MAX_POLICY_BYTES, MAX_RULES, Policy, PolicyError, Problem, Reach, Rule, Who,
};
pub use principal::{Kind, Principal};
