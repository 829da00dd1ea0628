//! The kernel's drop events (which datagram was freed unread, where in the kernel, and why), and its
//! checkpoints (which passed).
//!
//! A program in the kernel (`hook.bpf.c`) inspects each packet that is freed unread, reads its stream and
//! number, and joins similar drops into runs; nothing runs while nothing is lost. It needs `CAP_BPF` and
//! `CAP_PERFMON`, and Linux 5.8 or later with its types (BTF). Drops that it could not see are counted by
//! [`Hook::unseen`].
//!
//! Programs at [`Checkpoints`] (`checkpoints.bpf.c`) inspect each datagram that passes, and report only numbers
//! that are not the expected ones. They need Linux 5.17.

mod btf;
mod checkpoints;
mod error;
mod hook;
mod layout;
mod object;
mod runs;
mod symbols;

pub use checkpoints::{Checkpoints, Overlooked};
pub use error::HookError;
pub use hook::{Hook, Options, Unseen};

/// Origin of the hook in this program: the name of a compiler, or `shipped`.
pub const HOOK_FROM: &str = env!("HOOK_FROM");

#[doc(hidden)]
pub mod fuzz {
    //! Parsers of external bytes, for the fuzzers.
    pub use crate::btf::Types;
    pub use crate::layout::{read_copy, read_run};
    pub use crate::symbols::Symbols;
}
