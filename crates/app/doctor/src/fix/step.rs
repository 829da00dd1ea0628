//! Steps of `fix`, and their JSON objects: `docs/guide/doctor.md`.

use std::time::Duration;

use diagnose::{Change, Plan, Proof, Window};
use serde_json::{Value, json};

use super::undo_text;

/// Step of [`fix`](super::fix).
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FixStep<'a> {
    /// The first measurement begins.
    Watching {
        /// Number of watched sockets.
        sockets: usize,
        /// Length of a measurement.
        window: Duration,
    },
    /// Nothing was lost: this is the last step.
    NothingLost {
        /// Counts of the measurement.
        before: &'a Window,
    },
    /// A loss, and the change to be tried against it.
    Plan {
        /// The loss, and all remedies.
        plan: &'a Plan,
        /// The change; `None` where only the user can act.
        change: Option<&'a Change>,
        /// Counts of all losses in the last measurement.
        before: &'a Window,
    },
    /// A change was made and measured, and undone unless it helped.
    Proof {
        /// The loss.
        plan: &'a Plan,
        /// The change.
        change: &'a Change,
        /// Counts of this loss before the change.
        before: &'a Window,
        /// Counts of this loss after it.
        after: &'a Window,
        /// Judgement.
        proof: Proof,
    },
}

impl FixStep<'_> {
    /// Returns the step as an object.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Watching { sockets, window } => {
                json!({ "event": "watching", "sockets": sockets, "seconds": window.as_secs_f64() })
            }
            Self::NothingLost { before } => json!({ "event": "nothing_lost", "before": window_json(before) }),
            Self::Plan { plan, change, before: _ } => json!({
                "event": "plan",
                "stage": plan.stage.name(),
                "place": plan.place.to_string(),
                "lost": plan.lost,
                "why": plan.why,
                "change": change,
                "undo": change.map(undo_text),
                "by_hand": plan.by_hand.iter().map(|remedy| remedy.what.as_str()).collect::<Vec<_>>(),
            }),
            Self::Proof { plan, change, before, after, proof } => json!({
                "event": "proof",
                "stage": plan.stage.name(),
                "place": plan.place.to_string(),
                "change": change,
                "before": window_json(before),
                "after": window_json(after),
                "proof": proof_name(*proof),
                "kept": *proof == Proof::Helped,
            }),
        }
    }
}

const fn proof_name(proof: Proof) -> &'static str {
    match proof {
        Proof::Helped => "helped",
        Proof::DidNotHelp => "did_not_help",
        Proof::NoTraffic => "no_traffic",
    }
}

fn window_json(window: &Window) -> Value {
    json!({
        "seconds": window.time.as_secs_f64(),
        "delivered": window.delivered,
        "lost": window.lost,
        "lost_share": window.lost_share(),
    })
}
