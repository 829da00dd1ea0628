//! Controls by name, as users choose them: `cc=fixed&rate=950m`.

use crate::loss_based::{Bic, Cubic, HighSpeed, LossBased, Reno, Scalable, Westwood};
use crate::options::FromOptions;
use crate::{CongestionControl, Factory, OptionError, Options};
use crate::{
    bbr::Bbr, copa::Copa, fast::Fast, fixed::Fixed, fobs::Fobs, gtp::GtpFactory, ledbat::Ledbat, live::Live,
    native::Native, rbudp::Rbudp, sabul::Sabul, tsunami::Tsunami, vegas::Vegas,
};

/// A built-in control.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Name of the control.
    pub name: &'static str,
    /// Summary in one line.
    pub summary: &'static str,
    make: fn(&mut Options) -> Result<Box<dyn Factory>, OptionError>,
}

/// Reason why there is no control.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UnknownControl {
    /// Unknown name.
    #[error("unknown congestion control `{name}`; known are {}", known.join(", "))]
    Name {
        /// The given name.
        name: String,
        /// Names of the built-in controls.
        known: Vec<&'static str>,
    },
    /// Refused options.
    #[error("{name}: {error}")]
    Options {
        /// Name of the control.
        name: &'static str,
        /// Reason of the refusal.
        error: OptionError,
    },
}

/// All built-in controls.
pub const BUILT_IN: &[Choice] = &[
    Choice {
        name: "udt",
        summary: "UDT's own: a rate that grows by the free capacity, independent of the round trip (quantised=1: as libudt)",
        make: each::<Native>,
    },
    Choice {
        name: "reno",
        summary: "TCP's standard: one packet per round trip, halved at a loss (start=10)",
        make: each::<LossBased<Reno>>,
    },
    Choice {
        name: "bic",
        summary: "BIC: a binary search for the window of the last loss, then a probe beyond it (smax=32, smin=0.01, b=0.125)",
        make: each::<LossBased<Bic>>,
    },
    Choice {
        name: "cubic",
        summary: "today's TCP: a cubic function of the time since the last loss, independent of the round trip",
        make: each::<LossBased<Cubic>>,
    },
    Choice {
        name: "scalable",
        summary: "Scalable TCP: a hundredth of the window per round trip, an eighth less at a loss (a=0.01, b=0.125)",
        make: each::<LossBased<Scalable>>,
    },
    Choice {
        name: "highspeed",
        summary: "HighSpeed TCP: the wider the window, the larger its steps and the smaller its cuts",
        make: each::<LossBased<HighSpeed>>,
    },
    Choice {
        name: "westwood",
        summary: "Westwood+: Reno that after a loss keeps the measured capacity, for paths with random loss",
        make: each::<LossBased<Westwood>>,
    },
    Choice {
        name: "vegas",
        summary: "Vegas: keeps a few packets in the queue and yields before a loss (alpha=2, beta=4)",
        make: each::<Vegas>,
    },
    Choice {
        name: "fast",
        summary: "FAST TCP: moves directly to the window that keeps alpha packets in the queue (alpha=20, gamma=0.5)",
        make: each::<Fast>,
    },
    Choice {
        name: "copa",
        summary: "Copa: two packets of its own in the queue on average, aggressive only against controls that fill it (delta=0.5)",
        make: each::<Copa>,
    },
    Choice {
        name: "bbr",
        summary: "BBR v3: the measured delivery rate with hardly a queue, unaffected by random loss up to 2 %",
        make: each::<Bbr>,
    },
    Choice {
        name: "ledbat",
        summary: "LEDBAT: uses the capacity that others leave, and adds no more delay than its target (target=100 ms, gain=1)",
        make: each::<Ledbat>,
    },
    Choice {
        name: "sabul",
        summary: "SABUL-like: up and down by factors as the receiver reports losses (up=1.005, down=1.125, threshold=0.001, start=10m)",
        make: each::<Sabul>,
    },
    Choice {
        name: "tsunami",
        summary: "Tsunami-like: near its target up to a loss of error=7.5 %, for paths without other traffic (rate=950m, history=25)",
        make: each::<Tsunami>,
    },
    Choice {
        name: "gtp",
        summary: "GTP-like: a receiver shares its capacity (rate=950m) among its senders, and assigns each its rate",
        make: |options| Ok(Box::new(GtpFactory::from_options(options)?)),
    },
    Choice {
        name: "rbudp",
        summary: "RBUDP-style: everything at one rate, then the missing packets again, for paths without other traffic (rate=950m)",
        make: each::<Rbudp>,
    },
    Choice {
        name: "fobs",
        summary: "FOBS-like: one rate, and what a bitmap after every=1000 packets lacks again, without a wait, for paths without other traffic (rate=950m)",
        make: each::<Fobs>,
    },
    Choice {
        name: "fixed",
        summary: "a constant rate (rate=950m), for paths without other traffic",
        make: each::<Fixed>,
    },
    Choice {
        name: "live",
        summary: "for live messages: the offered rate and a quarter more, and less where the path delivers less (rate=, start=10m)",
        make: each::<Live>,
    },
];

/// Returns the factory of the named control, with options such as `alpha=20&gamma=0.5`.
///
/// # Errors
/// If there is no such control, or it refuses an option; the error lists the known ones.
pub fn named(name: &str, options: &str) -> Result<Box<dyn Factory>, UnknownControl> {
    let unknown = || UnknownControl::Name {
        name: name.to_owned(),
        known: BUILT_IN.iter().map(|choice| choice.name).collect(),
    };
    let choice = BUILT_IN.iter().find(|choice| choice.name == name).ok_or_else(unknown)?;
    let made = Options::parse(options).and_then(|mut options| {
        let factory = (choice.make)(&mut options)?;
        options.finish()?;
        Ok(factory)
    });
    made.map_err(|error| UnknownControl::Options { name: choice.name, error })
}

/// Factory that copies a control in its initial state.
#[derive(Debug)]
struct Each<C>(C);

impl<C: CongestionControl + Clone + Sync + 'static> Factory for Each<C> {
    fn create(&self) -> Box<dyn CongestionControl> {
        Box::new(self.0.clone())
    }
}

fn each<C>(options: &mut Options) -> Result<Box<dyn Factory>, OptionError>
where
    C: FromOptions + CongestionControl + Clone + Sync + 'static,
{
    Ok(Box::new(Each(C::from_options(options)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_is_chosen_by_name_and_options() {
        let factory = named("fixed", "rate=1g").unwrap();
        assert!(format!("{:?}", factory.create()).starts_with("Fixed"));
    }

    #[test]
    fn who_asks_for_what_there_is_not_learns_what_there_is() {
        let error = named("turbo", "").unwrap_err();
        assert!(
            error.to_string().starts_with("unknown congestion control `turbo`; known are udt"),
            "{error}"
        );
        let error = named("fixed", "speed=1g&rate=1g").unwrap_err();
        assert_eq!(error.to_string(), "fixed: unknown option `speed`; known options: rate");
    }

    /// Each control has its own kinds, so that a peer with another control does not misinterpret them.
    #[test]
    fn messages_of_controls_are_of_their_own_kinds_and_written_down() {
        let page = include_str!("../../../../docs/protocol/udt.md");
        let mut kinds = [
            ("sabul", crate::sabul::REPORT),
            ("tsunami", crate::tsunami::REPORT),
            ("gtp", crate::gtp::RATE),
            ("rbudp", crate::rbudp::DONE),
            ("rbudp", crate::rbudp::MAP),
            ("fobs", crate::fobs::WANT),
            ("fobs", crate::fobs::MAP),
        ];
        for (name, kind) in kinds {
            assert!(page.contains(&format!("| `{name}` | {kind:#06x} |")), "{name}");
        }
        kinds.sort_unstable_by_key(|(_, kind)| *kind);
        assert!(kinds.windows(2).all(|pair| pair[0].1 != pair[1].1), "{kinds:?}");
    }

    #[test]
    fn names_are_there_once() {
        let mut names: Vec<&str> = BUILT_IN.iter().map(|choice| choice.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), BUILT_IN.len());
    }
}
