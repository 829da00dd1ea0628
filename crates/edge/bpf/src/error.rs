//! Reasons why the kernel's drop events are not available, with remedies.

/// Reason why the hook cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// This kernel does not provide its types.
    #[error("this kernel has no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF), which drop events need")]
    NoTypes(#[source] std::io::Error),
    /// The kernel's types cannot be read.
    #[error(
        "unsupported content of /sys/kernel/btf/vmlinux; please report this kernel's version (`uname -r`)"
    )]
    TypesNotUnderstood,
    /// The kernel has no tracepoint at which packets are freed.
    #[error("this kernel has no tracepoint `kfree_skb`; drop events need Linux 5.8 or later")]
    NoTracepoint,
    /// The kernel does not permit it to this process.
    #[error(
        "not permitted: drop events need CAP_BPF and CAP_PERFMON; run it as root, or `setcap cap_bpf,cap_perfmon,cap_syslog+ep` on the program"
    )]
    NotPermitted,
    /// There are more ports or profiles than the hook has room for.
    #[error("too many {what}: the hook has room for {room}")]
    TooMany {
        /// Kind of the items.
        what: &'static str,
        /// Maximum number of items.
        room: usize,
    },
    /// The kernel refuses the hook.
    #[error("the kernel refuses the hook: {0}")]
    Refused(String),
}
