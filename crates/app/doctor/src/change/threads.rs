//! Nice values of a process's threads.

use std::collections::BTreeMap;
use std::io;

use diagnose::ThreadNice;
use sys::{process, scheduling};

use super::error::ChangeError;

/// Process, distinguished from earlier and later ones with its pid.
#[derive(Clone, Copy)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// Start time, in the kernel's ticks.
    pub(super) started: u64,
}

impl Process {
    /// Returns the nice values of its threads in ordinary classes.
    fn threads(self) -> Result<BTreeMap<u32, i32>, ChangeError> {
        if process::started(self.pid)? != self.started {
            return Err(ChangeError::Gone);
        }
        let threads = process::priorities(self.pid)?.into_iter().filter(|thread| thread.is_ordinary);
        Ok(threads.map(|thread| (thread.tid, thread.nice)).collect())
    }
}

/// Sets the nice value of threads that still have the earlier one; threads that ended or are more urgent are skipped.
pub(super) fn set(process: Process, nice: i32, before: &[ThreadNice]) -> Result<(), ChangeError> {
    let now = process.threads()?;
    let still_there =
        || before.iter().filter(|it| it.nice > nice).filter_map(|it| Some((*it, *now.get(&it.tid)?)));
    if let Some((thread, now)) = still_there().find(|(it, now)| *now != it.nice && *now != nice) {
        return Err(changed(thread, now, thread.nice));
    }
    for (thread, now) in still_there() {
        if let Err(error) = set_one(thread.tid, nice) {
            // Undo: the threads already set are restored.
            let done = before.iter().filter(|it| it.nice > nice).take_while(|it| it.tid != thread.tid);
            done.chain([&ThreadNice { tid: thread.tid, nice: now }])
                .try_for_each(|it| set_one(it.tid, it.nice))?;
            return Err(error.into());
        }
    }
    Ok(())
}

/// Restores the nice values of threads; newer threads get that of the process's first one, which they inherited.
pub(super) fn take_back(process: Process, nice: i32, before: &[ThreadNice]) -> Result<(), ChangeError> {
    let now = process.threads()?;
    let had = |tid: u32| before.iter().find(|it| it.tid == tid);
    let changed_since = now.iter().find_map(|(tid, now)| {
        let thread = had(*tid).filter(|it| it.nice > nice && *now != nice && *now != it.nice)?;
        Some(changed(*thread, *now, nice))
    });
    if let Some(error) = changed_since {
        return Err(error);
    }
    let first = had(process.pid).or(before.first()).map(|it| it.nice);
    for (tid, _) in now.iter().filter(|(_, now)| **now == nice) {
        if let Some(value) = had(*tid).map(|it| it.nice).or(first) {
            set_one(*tid, value)?;
        }
    }
    Ok(())
}

/// Sets one thread; a thread that ends meanwhile is no failure.
fn set_one(tid: u32, nice: i32) -> io::Result<()> {
    match scheduling::set_nice(tid, nice) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

fn changed(thread: ThreadNice, now: i32, expected: i32) -> ChangeError {
    ChangeError::since(&format!("the nice value of thread {}", thread.tid), now, expected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    /// Process of one thread, which sleeps until it is killed.
    struct Sleeper(Child);

    impl Sleeper {
        fn new() -> Self {
            Self(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
        }

        fn process(&self) -> Process {
            let pid = self.0.id();
            Process { pid, started: process::started(pid).unwrap() }
        }
    }

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn threads_become_more_urgent_and_are_what_they_were_again() {
        let sleeper = Sleeper::new();
        let process = sleeper.process();
        let (tid, first) = (process.pid, scheduling::nice(process.pid).unwrap());
        let before = [ThreadNice { tid, nice: first }, ThreadNice { tid: u32::MAX, nice: first }];
        match set(process, first - 1, &before) {
            Err(ChangeError::NotPermitted) => {
                return println!("SKIPPED: to be more urgent takes CAP_SYS_NICE");
            }
            outcome => outcome.unwrap(),
        }
        assert_eq!(scheduling::nice(tid).unwrap(), first - 1);
        take_back(process, first - 1, &before).unwrap();
        assert_eq!(scheduling::nice(tid).unwrap(), first);
        // Another program sets another value.
        set(process, first - 1, &before).unwrap();
        scheduling::set_nice(tid, first + 3).unwrap();
        assert!(matches!(take_back(process, first - 1, &before), Err(ChangeError::ChangedSince { .. })));
        assert!(matches!(set(process, first - 1, &before), Err(ChangeError::ChangedSince { .. })));
        assert_eq!(scheduling::nice(tid).unwrap(), first + 3);
    }

    #[test]
    fn a_process_that_only_has_the_number_is_another_one() {
        let sleeper = Sleeper::new();
        let process = sleeper.process();
        let earlier = Process { started: process.started - 1, ..process };
        let before = [ThreadNice { tid: process.pid, nice: scheduling::nice(process.pid).unwrap() }];
        assert!(matches!(set(earlier, -1, &before), Err(ChangeError::Gone)));
        assert!(matches!(take_back(earlier, -1, &before), Err(ChangeError::Gone)));
        drop(sleeper);
        assert!(matches!(take_back(process, -1, &before), Err(ChangeError::Gone)));
    }

    #[test]
    fn a_thread_that_came_since_goes_back_with_the_first_one() {
        let sleeper = Sleeper::new();
        let process = sleeper.process();
        let first = scheduling::nice(process.pid).unwrap();
        // As if its only thread had started since.
        scheduling::set_nice(process.pid, first + 1).unwrap();
        let gone = [ThreadNice { tid: u32::MAX, nice: first + 2 }];
        take_back(process, first + 1, &gone).unwrap();
        assert_eq!(scheduling::nice(process.pid).unwrap(), first + 2);
    }
}
