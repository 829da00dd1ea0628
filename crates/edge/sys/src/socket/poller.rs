//! Waits for sockets, for a deadline, and for other threads in one call.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use units::Instant;

use crate::host::clock;

/// Maximum number of descriptors that one wait reports; others are reported by the next.
pub const EVENTS_PER_WAIT: usize = 64;

/// Token of the poller's own timer, which no caller may use.
const TIMER: u64 = u64::MAX;

const NEVER: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Events to wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interest {
    /// Data to read.
    Read,
    /// Room to write.
    Write,
    /// Either.
    ReadWrite,
}

/// A descriptor with an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ready {
    /// Token given when it was added.
    pub token: u64,
    /// True if there are data to read.
    pub readable: bool,
    /// True if there is room to write.
    pub writable: bool,
    /// True if the error queue is not empty, or the other end is gone.
    pub failed: bool,
}

/// Waits for any number of descriptors (epoll, level-triggered).
///
/// Deadlines use a separate timer, because epoll itself counts in milliseconds and has nothing
/// finer on kernels before 5.11.
pub struct Poller {
    epoll: OwnedFd,
    timer: OwnedFd,
    armed: Option<Instant>,
    /// True once the timer has expired; it is reported until it is set again.
    has_rung: bool,
    ready: Vec<Ready>,
}

impl Poller {
    /// Creates a poller without descriptors.
    ///
    /// # Errors
    /// If the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        epoll::add(&epoll, &timer, epoll::EventData::new_u64(TIMER), epoll::EventFlags::IN)?;
        Ok(Self { epoll, timer, armed: None, has_rung: false, ready: Vec::with_capacity(EVENTS_PER_WAIT) })
    }

    /// Adds a descriptor, which must be removed before it is closed elsewhere.
    ///
    /// # Errors
    /// If it was added already, or cannot be waited for.
    ///
    /// # Panics
    /// If `token` is `u64::MAX`.
    pub fn add(&self, source: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        assert!(token != TIMER, "the largest token is the poller's own");
        Ok(epoll::add(&self.epoll, source, epoll::EventData::new_u64(token), interest.flags())?)
    }

    /// Removes a descriptor.
    ///
    /// # Errors
    /// If it was not added.
    pub fn remove(&self, source: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, source)?)
    }

    /// Waits until a descriptor is ready or `deadline` has come; returns the ready descriptors,
    /// none at the deadline or after a signal.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn wait(&mut self, deadline: Option<Instant>) -> io::Result<&[Ready]> {
        self.ready.clear();
        loop {
            let timer_rang = self.wait_once(deadline)?;
            // A timer that expired for an earlier wait's deadline does not concern this one.
            let is_early = timer_rang && deadline.is_none_or(|deadline| clock::monotonic() < deadline);
            if !is_early || !self.ready.is_empty() {
                return Ok(&self.ready);
            }
        }
    }

    /// Waits for descriptors or the timer; returns whether the timer expired.
    fn wait_once(&mut self, deadline: Option<Instant>) -> io::Result<bool> {
        let passed = deadline.is_some_and(|deadline| deadline <= clock::monotonic());
        // A timer that expires too early costs one read of the clock; setting it costs a system
        // call, which a caller that moves its deadline with every datagram would pay each time.
        let rings_in_time = match (self.armed, deadline) {
            (Some(armed), Some(deadline)) => armed <= deadline,
            (_, None) => !self.has_rung,
            (None, Some(_)) => false,
        };
        if !passed && !rings_in_time {
            self.arm(deadline)?;
        }
        let timeout = passed.then_some(&NEVER);
        // The timer is one of them, and is not reported to the caller.
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); EVENTS_PER_WAIT + 1];
        let events = match epoll::wait(&self.epoll, &mut events, timeout) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(false),
            Err(other) => return Err(other.into()),
        };
        let mut timer_rang = false;
        for event in events {
            // Copied out, since the kernel's struct is packed on some machines.
            let (flags, data) = (event.flags, event.data);
            match data.u64() {
                TIMER => timer_rang = true,
                token => self.ready.push(Ready::new(token, flags)),
            }
        }
        if timer_rang {
            // Not disarmed: the next deadline sets it anyway, which saves a system call.
            (self.armed, self.has_rung) = (None, true);
        }
        Ok(timer_rang)
    }

    fn arm(&mut self, deadline: Option<Instant>) -> io::Result<()> {
        // Zero would disarm it; no deadline in the future is at the origin of the clock.
        let it_value = deadline.map_or(NEVER, clock::timespec);
        let timer = Itimerspec { it_interval: NEVER, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &timer)?;
        (self.armed, self.has_rung) = (deadline, false);
        Ok(())
    }
}

impl Interest {
    const fn flags(self) -> epoll::EventFlags {
        match self {
            Self::Read => epoll::EventFlags::IN,
            Self::Write => epoll::EventFlags::OUT,
            Self::ReadWrite => epoll::EventFlags::IN.union(epoll::EventFlags::OUT),
        }
    }
}

impl Ready {
    fn new(token: u64, flags: epoll::EventFlags) -> Self {
        Self {
            token,
            readable: flags.contains(epoll::EventFlags::IN),
            writable: flags.contains(epoll::EventFlags::OUT),
            failed: flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP),
        }
    }
}

/// Wakes a thread that waits in a [`Poller`], from any other thread.
pub struct Wakeup {
    event: OwnedFd,
}

impl Wakeup {
    /// Creates a wake-up, to be added to a poller with [`Interest::Read`].
    ///
    /// # Errors
    /// If the process has no descriptors left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { event: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    /// Wakes the poller; several calls before it wakes count as one.
    pub fn wake(&self) {
        // Fails only when the counter is full, and then the poller is awake.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    /// Clears earlier calls. Must be called by the woken thread before it checks for work.
    pub fn clear(&self) {
        // Fails only when there was no call.
        let _ = rustix::io::read(&self.event, &mut [0; 8]);
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn poller_with(wakeup: &Wakeup) -> Poller {
        let poller = Poller::new().unwrap();
        poller.add(wakeup, 7, Interest::Read).unwrap();
        poller
    }

    #[test]
    fn a_wait_ends_at_its_deadline_and_not_before() {
        let mut poller = Poller::new().unwrap();
        for wait in [Duration::ZERO, Duration::from_micros(300), Duration::from_millis(3)] {
            let deadline = clock::monotonic() + wait;
            while clock::monotonic() < deadline {
                assert!(poller.wait(Some(deadline)).unwrap().is_empty());
            }
        }
        assert!(poller.wait(Some(Instant::ORIGIN)).unwrap().is_empty());
    }

    #[test]
    fn a_deadline_that_was_given_up_does_not_disturb_later_waits() {
        let wakeup = Wakeup::new().unwrap();
        let mut poller = poller_with(&wakeup);
        wakeup.wake();
        let soon = clock::monotonic() + Duration::from_millis(2);
        assert_eq!(poller.wait(Some(soon)).unwrap().len(), 1);
        clock::sleep_until(soon);
        // Without a deadline only the wake-up can end this.
        assert_eq!(poller.wait(None).unwrap()[0].token, 7);
    }

    #[test]
    fn a_timer_that_has_rung_does_not_end_the_next_wait() {
        let wakeup = Wakeup::new().unwrap();
        let mut poller = poller_with(&wakeup);
        for _ in 0..3 {
            let soon = clock::monotonic() + Duration::from_micros(200);
            while clock::monotonic() < soon {
                assert!(poller.wait(Some(soon)).unwrap().is_empty());
            }
            let later = clock::monotonic() + Duration::from_micros(300);
            assert!(poller.wait(Some(later)).unwrap().is_empty());
            assert!(clock::monotonic() >= later);
            std::thread::scope(|scope| {
                scope.spawn(|| wakeup.wake());
                // Without a deadline only the wake-up can end this.
                assert_eq!(poller.wait(None).unwrap().len(), 1);
            });
            wakeup.clear();
        }
    }

    #[test]
    fn another_thread_wakes_a_waiting_one_and_many_calls_are_one() {
        let wakeup = Wakeup::new().unwrap();
        let mut poller = poller_with(&wakeup);
        std::thread::scope(|scope| {
            scope.spawn(|| (0..10).for_each(|_| wakeup.wake())).join().unwrap();
            let expected = Ready { token: 7, readable: true, writable: false, failed: false };
            assert_eq!(poller.wait(None).unwrap(), [expected]);
        });
        wakeup.clear();
        assert!(poller.wait(Some(clock::monotonic())).unwrap().is_empty());
    }

    #[test]
    fn a_removed_descriptor_is_not_reported() {
        let wakeup = Wakeup::new().unwrap();
        let mut poller = poller_with(&wakeup);
        wakeup.wake();
        poller.remove(&wakeup).unwrap();
        assert!(poller.wait(Some(clock::monotonic())).unwrap().is_empty());
        assert!(poller.remove(&wakeup).is_err());
    }
}
