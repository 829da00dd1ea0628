//! Shared views in the metrics: documents, followers, edits taken and refused, files.

use super::{Kind, Picture};
use crate::shared_views::ViewCounts;

impl Picture {
    pub(super) fn add_shared_views(&mut self, counts: &ViewCounts) {
        let one = |value: f64| vec![(Vec::new(), value)];
        let refused = counts.edits.refused.iter();
        let refused = refused.map(|(reason, count)| (vec![("reason", (*reason).to_owned())], *count as f64));
        let families = [
            ("shared_views", "shared views, open or not", Kind::Gauge, one(counts.documents as f64)),
            (
                "shared_view_watchers",
                "pages that follow a shared view",
                Kind::Gauge,
                one(counts.watchers as f64),
            ),
            (
                "shared_views_unsaved",
                "shared views that differ from their files: written within a second if the disk takes them",
                Kind::Gauge,
                one(counts.unsaved as f64),
            ),
            (
                "shared_view_edits_offered",
                "edits of shared views that were asked for: those applied and refused",
                Kind::Counter,
                one(counts.edits.offered as f64),
            ),
            (
                "shared_view_edits_applied",
                "edits of shared views that took effect",
                Kind::Counter,
                one(counts.edits.applied as f64),
            ),
            (
                "shared_view_edits_refused",
                "edits of shared views that were refused, by reason",
                Kind::Counter,
                refused.collect(),
            ),
            (
                "shared_view_writes_failed",
                "attempts to write a shared view that failed: it stays in memory and is written again",
                Kind::Counter,
                one(counts.failed_writes as f64),
            ),
            (
                "shared_view_files_left_out",
                "files of shared views that could not be taken at the start, and are kept aside",
                Kind::Counter,
                one(counts.left_out_files as f64),
            ),
        ];
        self.add_all("tallycast_monitor_", families);
    }
}
