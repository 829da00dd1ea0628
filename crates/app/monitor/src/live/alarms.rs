//! What a page is told of alarms: all of them first, then those that have changed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Connection, Gone, TELL};
use crate::alarms::Alarm;

/// Minimum time between two messages: alarms that change faster are told together.
const GATHER: Duration = Duration::from_millis(100);

/// The alarms as a page was told last.
#[derive(Debug, Default)]
pub(super) struct ToldAlarms {
    known: BTreeMap<(String, u32), Alarm>,
    /// Time of the last look at them.
    looked: Option<Instant>,
    /// True if something has changed since then.
    is_due: bool,
}

impl ToldAlarms {
    /// Notes that an alarm or its acknowledgement has changed.
    pub(super) const fn changed(&mut self) {
        self.is_due = true;
    }

    /// Returns the time of the next look, if a change waits for one.
    pub(super) fn next(&self) -> Option<Instant> {
        self.looked.filter(|_| self.is_due).map(|looked| looked + GATHER)
    }

    /// Returns whether to look now: after a change, and sometimes without one, since a silent node makes none.
    fn looks(&self, now: Instant) -> bool {
        let patience = if self.is_due { GATHER } else { TELL };
        self.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= patience)
    }

    /// Returns the message that makes of the alarms told so far these; `None` if they are the same.
    fn message<'a>(&mut self, alarms: impl Iterator<Item = &'a Alarm>, now: Instant) -> Option<Value> {
        let whole = self.looked.replace(now).is_none();
        self.is_due = false;
        let before = std::mem::take(&mut self.known);
        self.known = alarms.map(|alarm| ((alarm.stream.clone(), alarm.channel), alarm.clone())).collect();
        let gone = before.keys().filter(|key| !self.known.contains_key(*key));
        let gone: Vec<_> =
            gone.map(|(stream, channel)| json!({"stream": stream, "channel": channel})).collect();
        let changed = self.known.iter().filter(|(key, alarm)| before.get(*key) != Some(*alarm));
        let changed: Vec<&Alarm> = changed.map(|(_, alarm)| alarm).collect();
        let has_news = whole || !changed.is_empty() || !gone.is_empty();
        has_news.then(|| json!({"type": "alarms", "whole": whole, "alarms": changed, "gone": gone}))
    }
}

impl Connection {
    /// Tells the page of alarms that have changed.
    pub(super) async fn tell_alarms(&mut self) -> Result<(), Gone> {
        let now = Instant::now();
        if !self.alarms.looks(now) {
            return Ok(());
        }
        let all = self.shared.alarms.newest(&self.shared.history);
        let visitor = &self.visitor;
        match self.alarms.message(all.iter().filter(|alarm| visitor.reads(&alarm.stream)), now) {
            Some(message) => self.say(message.to_string()).await,
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alarm(channel: u32, change: u64) -> Alarm {
        Alarm {
            stream: "lab/alarm".to_owned(),
            channel,
            input: format!("lab/x:{channel}"),
            unit: String::new(),
            state: 2,
            side: 1,
            value: Some(1.0),
            limit: None,
            since_ns: 7,
            change,
            acknowledged: None,
        }
    }

    /// The channels in a message, and those that are gone.
    fn told(message: &Value) -> (bool, Vec<u64>, Vec<u64>) {
        let channels = |name: &str| {
            message[name].as_array().unwrap().iter().map(|it| it["channel"].as_u64().unwrap()).collect()
        };
        (message["whole"].as_bool().unwrap(), channels("alarms"), channels("gone"))
    }

    #[test]
    fn a_page_is_told_all_alarms_once_and_then_what_has_changed() {
        let (mut page, now) = (ToldAlarms::default(), Instant::now());
        let mut say = |alarms: &[Alarm]| page.message(alarms.iter(), now).map(|message| told(&message));
        assert_eq!(say(&[alarm(0, 1), alarm(1, 2)]), Some((true, vec![0, 1], vec![])));
        assert_eq!(say(&[alarm(1, 2), alarm(0, 1)]), None, "in another order they are the same");
        assert_eq!(say(&[alarm(0, 1), alarm(1, 3)]), Some((false, vec![1], vec![])));
        assert_eq!(say(&[alarm(1, 3), alarm(2, 4)]), Some((false, vec![2], vec![0])));
        let value = Alarm { value: None, ..alarm(1, 3) };
        assert_eq!(say(&[value, alarm(2, 4)]), Some((false, vec![1], vec![])), "a value alone");
        assert_eq!(say(&[]), Some((false, vec![], vec![1, 2])));
    }

    #[test]
    fn a_bus_without_alarms_is_told_too() {
        let mut page = ToldAlarms::default();
        let message = page.message([].iter(), Instant::now()).unwrap();
        assert_eq!(told(&message), (true, vec![], vec![]));
    }

    #[test]
    fn changes_are_gathered_and_without_any_a_look_is_rare() {
        let (mut page, begin) = (ToldAlarms::default(), Instant::now());
        assert!(page.looks(begin), "the first");
        page.message([].iter(), begin);
        assert!(!page.looks(begin + TELL - Duration::from_millis(1)));
        assert!(page.looks(begin + TELL));
        assert_eq!(page.next(), None);
        page.changed();
        assert!(!page.looks(begin + GATHER - Duration::from_millis(1)));
        assert_eq!(page.next(), Some(begin + GATHER));
        assert!(page.looks(begin + GATHER));
        page.message([].iter(), begin + GATHER);
        assert_eq!(page.next(), None);
    }
}
