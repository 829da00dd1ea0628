//! What a program tells about its key service: each change of its state once.

use std::fmt;
use std::time::Duration;

use keys::service::RefusedFor;

use crate::ServiceState;

/// Silence that is told: a lost message is repeated long before.
const SILENCE: Duration = Duration::from_secs(3);

/// A change of what is known of the key service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct News {
    service: String,
    pub(crate) subject: Subject,
}

/// State of a key service as a member sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Subject {
    /// It has not answered yet.
    Waiting,
    Answers,
    /// It is silent, but the secrets held last for some time.
    Silent {
        left: Duration,
    },
    /// It is silent, and the secrets held have ended.
    Ended,
    Refused(RefusedFor),
}

impl Subject {
    /// Returns what there is to tell of a state after what was told before.
    fn of(state: &ServiceState, before: Option<Self>) -> Self {
        let is_silent = state.silent.is_some_and(|silent| silent >= SILENCE);
        match (state.refused, state.left) {
            (Some(reason), _) => Self::Refused(reason),
            (None, Some(left)) if is_silent => Self::Silent { left },
            (None, Some(_)) => Self::Answers,
            (None, None) if matches!(before, None | Some(Self::Waiting)) => Self::Waiting,
            (None, None) => Self::Ended,
        }
    }

    const fn is_like(self, other: Self) -> bool {
        matches!(
            (self, other),
            (Self::Waiting, Self::Waiting)
                | (Self::Answers, Self::Answers)
                | (Self::Silent { .. }, Self::Silent { .. })
                | (Self::Ended, Self::Ended)
                | (Self::Refused(_), Self::Refused(_))
        )
    }
}

impl News {
    /// Returns the news of a state, and remembers them; `None` if they were told before.
    pub(crate) fn of(state: &ServiceState, told: &mut Option<Subject>) -> Option<Self> {
        let (subject, before) = (Subject::of(state, *told), *told);
        // That it answers is news only after it did not.
        let is_told = before.map_or(matches!(subject, Subject::Answers), |before| before.is_like(subject));
        *told = Some(subject);
        (!is_told).then(|| Self { service: state.address.clone(), subject })
    }

    /// Returns whether it is good news.
    #[must_use]
    pub const fn is_good(&self) -> bool {
        matches!(self.subject, Subject::Answers)
    }
}

impl fmt::Display for News {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { service, subject } = self;
        match subject {
            Subject::Waiting => write!(
                formatter,
                "the key service {service} does not answer: nothing is sent or read before it does\n\
                 is it running there, and is this station its member? tallycast keys serve, keys add"
            ),
            Subject::Answers => write!(formatter, "the key service {service} answers"),
            Subject::Silent { left } => write!(
                formatter,
                "the key service {service} does not answer; the secrets held last for {:?}\n\
                 start it again before that: tallycast keys serve",
                Duration::from_secs(left.as_secs())
            ),
            Subject::Ended => write!(
                formatter,
                "the key service {service} was away for too long and the last secret has ended: nothing is sent or read \
                 until it answers\n\
                 start it again: tallycast keys serve"
            ),
            Subject::Refused(reason) => write!(
                formatter,
                "the key service {service} gives this station no keys any more: {reason}\n\
                 ask whoever runs it to add the station again: tallycast keys add"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use units::WallTime;

    use super::*;

    #[test]
    fn each_change_is_told_once() {
        let seconds = |seconds: u64| Some(Duration::from_secs(seconds));
        let mut state = ServiceState {
            address: "keys.lab.example:7409".to_owned(),
            left: None,
            silent: seconds(1),
            unanswered: 0,
            refused: None,
        };
        let mut told = None;
        let mut news = |state: &ServiceState| News::of(state, &mut told).map(|it| it.to_string());
        assert!(news(&state).unwrap().contains("nothing is sent or read before it does"));
        assert_eq!(news(&state), None);
        (state.left, state.silent) = (seconds(7_000), None);
        assert!(news(&state).unwrap().ends_with("answers"));
        state.silent = seconds(2);
        assert_eq!(news(&state), None, "a lost message is no news");
        state.silent = seconds(3);
        assert!(news(&state).unwrap().contains("the secrets held last for 7000s"));
        state.left = seconds(1);
        assert_eq!(news(&state), None);
        state.left = None;
        assert!(news(&state).unwrap().contains("the last secret has ended"));
        assert_eq!(news(&state), None);
        (state.refused, state.silent) = (Some(RefusedFor::Removed(WallTime::from_nanos(0))), None);
        let refused = news(&state).unwrap();
        assert!(
            refused.contains("removed at 1970-01-01T00:00:00Z") && refused.contains("keys add"),
            "{refused}"
        );
        (state.refused, state.left) = (None, seconds(7_000));
        assert!(news(&state).unwrap().ends_with("answers"));
    }

    #[test]
    fn a_service_that_answers_from_the_start_is_no_news() {
        let left = Some(Duration::from_secs(1));
        let state = ServiceState { address: String::new(), left, silent: None, unanswered: 0, refused: None };
        assert_eq!(News::of(&state, &mut None), None);
    }
}
