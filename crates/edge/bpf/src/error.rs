//! Why the kernel's drop events cannot be had here, and what to do.

/// Why the hook is not there.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// This kernel does not tell its types.
    #[error(
        "this kernel has no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF), without which its drops cannot be read"
    )]
    NoTypes(#[source] std::io::Error),
    /// Its types cannot be read.
    #[error(
        "what /sys/kernel/btf/vmlinux has is not understood; please report this kernel's version (`uname -r`)"
    )]
    TypesNotUnderstood,
    /// It has no tracepoint where packets are freed.
    #[error("this kernel has no tracepoint `kfree_skb`; drop events need Linux 5.8 or later")]
    NoTracepoint,
    /// It does not let this process.
    #[error(
        "not permitted: drop events need CAP_BPF and CAP_PERFMON; run it as root, or `setcap cap_bpf,cap_perfmon,cap_syslog+ep` on the program"
    )]
    NotPermitted,
    /// More ports or profiles than the hook has room for.
    #[error("too many {what}: the hook has room for {room}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        room: usize,
    },
    /// The kernel refuses it.
    #[error("the kernel refuses the hook: {0}")]
    Refused(String),
}
