//! A network in one readable line, for failure messages and table headings.

use core::fmt;

use crate::{Port, SiteId, Trunk};

/// Participants, links and seed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scenario {
    seed: u64,
    /// Descriptions of nodes, each with the number of consecutive nodes it applies to.
    entries: Vec<(String, u64)>,
}

impl Scenario {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { seed, entries: Vec::new() }
    }

    /// Returns the seed.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn note(&mut self, role: &str, port: &Port) {
        self.push(describe(role, port));
    }

    /// Adds a site, before its nodes.
    pub(crate) fn note_site(&mut self, name: &str, trunk: &Trunk) {
        self.push(format!("site {name} (in: {}) (out: {})", trunk.down, trunk.up));
    }

    fn push(&mut self, entry: String) {
        match self.entries.last_mut() {
            Some((last, count)) if *last == entry => *count += 1,
            _ => self.entries.push((entry, 1)),
        }
    }
}

fn describe(role: &str, port: &Port) -> String {
    let ideal = Port::default().down.to_string();
    let (down, up, host) = (port.down.to_string(), port.up.to_string(), port.host.to_string());
    let mut entry = role.to_owned();
    for (name, what, usual) in [("in", &down, &ideal), ("out", &up, &ideal), ("host", &host, &String::new())]
    {
        if what != usual {
            entry.push_str(&format!(" ({name}: {what})"));
        }
    }
    if let Some(SiteId(site)) = port.site {
        entry.push_str(&format!(" (at site {site})"));
    }
    entry
}

impl fmt::Display for Scenario {
    /// Writes `seed 7: publisher — 3 × reader (in: 100µs, loss 0.003) (out: 100µs)`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "seed {}:", self.seed)?;
        for (index, (entry, count)) in self.entries.iter().enumerate() {
            let separator = if index == 0 { "" } else { " —" };
            write!(formatter, "{separator} ")?;
            if *count > 1 {
                write!(formatter, "{count} × ")?;
            }
            formatter.write_str(entry)?;
        }
        Ok(())
    }
}
