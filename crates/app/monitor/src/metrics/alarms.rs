//! Metrics of alarms.

use super::{Kind, Picture};
use crate::alarms::Alarm;

impl Picture {
    /// Adds the state of each alarm, and whether it is acknowledged.
    pub(super) fn add_alarms(&mut self, alarms: &[Alarm]) {
        let labels = |alarm: &Alarm| vec![("stream", alarm.stream.clone()), ("input", alarm.input.clone())];
        let each = |value: fn(&Alarm) -> f64| {
            alarms.iter().map(|alarm| (labels(alarm), value(alarm))).collect::<Vec<_>>()
        };
        self.add(
            "tallycast_alarm_state".to_owned(),
            "state of the alarm: 0 ok, 1 warning, 2 alarm, 3 unknown".to_owned(),
            Kind::Gauge,
            each(|alarm| f64::from(alarm.state)),
        );
        self.add(
            "tallycast_alarm_unacknowledged".to_owned(),
            "1 while the state is not ok and not acknowledged".to_owned(),
            Kind::Gauge,
            each(|alarm| f64::from(u8::from(alarm.state != 0 && alarm.acknowledged.is_none()))),
        );
    }

    pub(super) fn add_acknowledgements(&mut self, count: u64) {
        let name = "tallycast_alarm_acknowledgements".to_owned();
        let help = "alarms acknowledged over this monitor, also before it was started".to_owned();
        self.add(name, help, Kind::Counter, vec![(Vec::new(), count as f64)]);
    }
}
