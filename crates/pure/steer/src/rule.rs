//! Rules by which an app refuses a command: their names, codes, and the advice for the sender.

use core::fmt;

macro_rules! rules {
    ($($(#[$doc:meta])* $variant:ident = $code:literal $name:literal $advice:literal,)*) => {
        /// The rule that refused a command.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum Rule {
            $($(#[$doc])* $variant = $code,)*
        }

        impl Rule {
            /// Every rule, by code.
            pub const ALL: [Self; [$($code),*].len()] = [$(Self::$variant),*];

            /// Returns the name, the same in answers, counters and logs.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the reason, and what the sender can do.
            #[must_use]
            pub const fn advice(self) -> &'static str {
                match self { $(Self::$variant => $advice,)* }
            }
        }
    };
}

rules! {
    /// No parameter has this name.
    Parameter = 0 "parameter" "the app has no such parameter: list its parameters",
    /// The value has another dtype.
    Dtype = 1 "dtype" "the value has another dtype than the parameter: convert it",
    /// The value has another shape.
    Shape = 2 "shape" "the value has another shape than the parameter: send all of its elements",
    /// An element is NaN or infinite.
    NotFinite = 3 "not_finite" "an element is NaN or infinite: send finite numbers",
    /// An element is below the minimum or above the maximum.
    Range = 4 "range" "an element is outside the parameter's range: keep to its minimum and maximum",
    /// An element differs by too much from the present value.
    Step = 5 "step" "the step from the present value is too great: approach the value in smaller steps",
    /// The present value is not known, so no step can be judged.
    Unread = 6 "unread" "the present value is unknown after an uncertain command: wait until the app has read it back",
    /// The parameter has another revision than the command says.
    Revision = 7 "revision" "the parameter was changed meanwhile: read it and decide again",
    /// The session is not open at the app.
    Session = 8 "session" "the session is not open at this app: open a new one",
    /// No rule of access allows it.
    ReadOnly = 9 "read_only" "no rule of access allows it: ask an administrator for one",
    /// The session does not hold the lease of the parameter's group.
    Lease = 10 "lease" "the session does not hold the lease of the parameter's group: take the lease first",
    /// The kill switch is on.
    Stopped = 11 "stopped" "steering is stopped by the kill switch: an administrator can release it",
    /// The deadline is further ahead than a deadline may be.
    Clock = 12 "clock" "the deadline is too far ahead of the app's clock: open a new session and learn the clock",
    /// The id belongs to another command.
    IdReused = 13 "id_reused" "the id belongs to another command: draw a new id",
    /// Too many commands are outstanding.
    Full = 14 "full" "too many commands are outstanding: wait for answers before sending more",
    /// The sender asked for the id before the command arrived, which withdrew it.
    Withdrawn = 15 "withdrawn" "the sender asked for this id before the command arrived: send a new command",
    /// The id may be one that the app decided and forgot.
    Forgotten = 16 "forgotten" "the app may have decided this id and forgotten it: look it up in the log",
    /// A text is too long.
    Text = 17 "text" "the reason or the parameter's name is too long: shorten it",
}

impl Rule {
    /// Returns the code in the log.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the rule with this code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "refused by the rule `{}`: {}", self.name(), self.advice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_count_up_and_names_are_unique() {
        for (code, rule) in Rule::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(rule.code()), code);
            assert_eq!(Rule::from_code(rule.code()), Some(rule));
            assert_eq!(Rule::ALL.into_iter().filter(|other| other.name() == rule.name()).count(), 1);
        }
        assert_eq!(Rule::from_code(18), None);
    }

    #[test]
    fn the_page_has_every_rule() {
        let page = include_str!("../../../../docs/protocol/steering.md");
        for rule in Rule::ALL {
            assert!(page.contains(&format!("| {} | `{}` |", rule.code(), rule.name())), "{}", rule.name());
        }
    }
}
