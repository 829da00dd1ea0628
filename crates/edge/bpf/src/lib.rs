//! The kernel's drop events (which datagram was freed unread, where in the kernel, and why), and its checkpoints (which has passed).
//!
//! A program in the kernel (`hook.bpf.c`) looks at each packet that is freed unread, reads stream and number out of it, and joins
//! what is alike into runs; nothing runs while nothing is lost. It needs `CAP_BPF` and `CAP_PERFMON`, and Linux 5.8 or later with
//! its types (BTF). What it could not see is counted, and told by [`Hook::unseen`].
//!
//! Programs at [`Checkpoints`] (`checkpoints.bpf.c`) look at each datagram that passes, and speak only where its number is not the
//! one that should come next. They need Linux 5.17.

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

/// What built the hook in this program: the name of a compiler, or `shipped`.
pub const HOOK_FROM: &str = env!("HOOK_FROM");

#[doc(hidden)]
pub mod fuzz {
    //! What reads bytes of others, for the fuzzers.
    pub use crate::btf::Types;
    pub use crate::layout::{read_copy, read_run};
    pub use crate::symbols::Symbols;
}
