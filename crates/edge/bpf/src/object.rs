//! Common parts of loading both objects: the datagrams to inspect, and the kernel's refusals.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use aya::maps::{MapData, PerCpuArray};
use aya::programs::{BtfTracePoint, ProgramError};
use aya::{Btf, Ebpf, EbpfLoader};
use diagnose::Profile;

use crate::error::HookError;

/// Maximum number of ports, as in `packet.bpf.h`.
const MAX_PORTS: usize = 8;
const MAX_PROFILES: usize = 4;
const PROFILE_BYTES: usize = 20;

/// The datagrams to inspect, and the positions of their numbers, in the kernel's form.
pub(crate) struct Filter {
    port_count: u32,
    ports: [u16; MAX_PORTS],
    profile_count: u32,
    profiles: [[u8; PROFILE_BYTES]; MAX_PROFILES],
}

impl Filter {
    pub(crate) fn new(ports: &[u16], profiles: &[Profile]) -> Result<Self, HookError> {
        let raw: Vec<_> = profiles.iter().map(raw_profile).collect();
        Ok(Self {
            port_count: ports.len() as u32,
            ports: padded(ports, "ports")?,
            profile_count: profiles.len() as u32,
            profiles: padded(&raw, "profiles")?,
        })
    }

    pub(crate) fn set<'a>(&'a self, loader: &mut EbpfLoader<'a>) {
        loader
            .override_global("PORTS", &self.port_count, true)
            .override_global("PORT", &self.ports, true)
            .override_global("PROFILES", &self.profile_count, true)
            .override_global("PROFILE", &self.profiles, true);
    }
}

/// Redirects the calls of an object that name `stands_for` to a function of the kernel, whose only number is
/// that of its type; `None` if there is no such call.
///
/// Source: `BPF_PSEUDO_KFUNC_CALL` of `linux/bpf.h`. The loader does not support it, so the instruction itself
/// is changed.
pub(crate) fn with_function(object: &[u8], stands_for: u32, function: u32) -> Option<Vec<u8>> {
    const CALL: u8 = 0x85;
    const OF_HELPER: u8 = 0;
    const OF_FUNCTION: u8 = 2 << 4;
    let instruction = |registers: u8, number: u32| {
        let [a, b, c, d] = number.to_le_bytes();
        [CALL, registers, 0, 0, a, b, c, d]
    };
    let wanted = instruction(OF_HELPER, stands_for);
    let mut object = object.to_vec();
    let mut found = false;
    let mut at = 0;
    while let Some(index) = object[at..].windows(wanted.len()).position(|it| *it == wanted) {
        let call = at + index..at + index + wanted.len();
        at = call.end;
        object[call].copy_from_slice(&instruction(OF_FUNCTION, function));
        found = true;
    }
    found.then_some(object)
}

/// Attaches a program to a tracepoint.
pub(crate) fn attach(kernel: &mut Ebpf, program: &str, tracepoint: &str, btf: &Btf) -> Result<(), HookError> {
    let program = kernel.program_mut(program).ok_or(HookError::NoTracepoint)?;
    let program: &mut BtfTracePoint = program.try_into().map_err(|error: ProgramError| refused(&error))?;
    program.load(tracepoint, btf).map_err(|error| refused(&error))?;
    program.attach().map_err(|error| refused(&error))?;
    Ok(())
}

/// Returns how often the kernel skipped a program, because a call was already running.
pub(crate) fn missed_calls(kernel: &Ebpf, program: &str) -> io::Result<u64> {
    let program = kernel.program(program).ok_or(io::ErrorKind::NotFound)?;
    let number = program.fd().map_err(io::Error::other)?.as_fd().as_raw_fd();
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}"))?;
    let value = text.lines().find_map(|line| line.strip_prefix("recursion_misses:"));
    Ok(value.and_then(|value| value.trim().parse().ok()).unwrap_or(0))
}

/// Returns the sum of a count that each processor keeps for itself.
pub(crate) fn sum_of(counts: &PerCpuArray<MapData, u64>, which: u32) -> io::Result<u64> {
    let values = counts.get(&which, 0).map_err(io::Error::other)?;
    Ok(values.iter().sum())
}

fn padded<T: Copy + Default, const ROOM: usize>(
    values: &[T],
    what: &'static str,
) -> Result<[T; ROOM], HookError> {
    let mut all = [T::default(); ROOM];
    all.get_mut(..values.len()).ok_or(HookError::TooMany { what, room: ROOM })?.copy_from_slice(values);
    Ok(all)
}

/// Encodes a profile as `struct profile` of `packet.bpf.h`.
fn raw_profile(profile: &Profile) -> [u8; PROFILE_BYTES] {
    let at = |field: Option<diagnose::Field>| field.map_or(0, |field| field.at).to_le_bytes();
    let bytes = |field: Option<diagnose::Field>| [field.map_or(0, |field| field.bytes)];
    let (stream, incarnation, number) = (profile.stream, profile.incarnation, Some(profile.number));
    let parts: [&[u8]; 10] = [
        &profile.magic.to_le_bytes(),
        &profile.magic_mask.to_le_bytes(),
        &at(stream),
        &at(incarnation),
        &at(number),
        &bytes(stream),
        &bytes(incarnation),
        &bytes(number),
        &[u8::from(profile.is_big_endian)],
        &profile.payload_bytes().to_le_bytes(),
    ];
    let mut raw = [0; PROFILE_BYTES];
    raw.copy_from_slice(&parts.concat());
    raw
}

/// Determines from an error's sources whether the kernel lacks permission or rejects the program.
pub(crate) fn refused(error: &(dyn core::error::Error + 'static)) -> HookError {
    let mut source = Some(error);
    let mut said = String::new();
    while let Some(error) = source {
        let of_system = error.downcast_ref::<io::Error>();
        if of_system.is_some_and(|error| error.kind() == io::ErrorKind::PermissionDenied) {
            return HookError::NotPermitted;
        }
        said = format!("{said}{}{error}", if said.is_empty() { "" } else { ": " });
        source = error.source();
    }
    HookError::Refused(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_go_to_the_function_wherever_they_stand() {
        let call = [0x85, 0, 0, 0, 7, 0, 0, 1];
        let object = [&[1, 2, 3], &call[..], &[0x85, 0, 0, 0, 8, 0, 0, 1], &call[..]].concat();
        let expected = [0x85, 0x20, 0, 0, 0x34, 0x12, 0, 0];
        let expected = [&[1, 2, 3], &expected[..], &[0x85, 0, 0, 0, 8, 0, 0, 1], &expected[..]].concat();
        assert_eq!(with_function(&object, 0x0100_0007, 0x1234), Some(expected));
        assert_eq!(with_function(&object, 9, 0x1234), None);
    }
}
