//! Archive of streams: every element with its gap map and account, safe against crashes, in open formats.
//!
//! A [`Recorder`] writes the samples of a reader into a run: segments that are plain Arrow IPC streams, each with an
//! index whose entries acknowledge what is stored; closed segments become Parquet ([`Compactor`]). An [`Archive`]
//! lists the content, returns blocks and holes in their order ([`Feed`]), thins them ([`Points`]) and exports them
//! ([`Export`]). Every file access goes through a [`Store`], so that tests can take the disk away at any moment. The
//! formats are drawn in `docs/reference/formats/archive.md`.
//!
//! No network here: the driver of the recorder passes on its subscriber's events.

mod catalogue;
mod checksum;
mod columns;
mod compact;
mod contents;
mod damage;
mod description;
mod disk_level;
mod error;
mod experiment_runs;
mod export;
mod feed;
mod folders;
mod gaps;
mod index;
mod later_versions;
mod missing;
mod moment;
mod parquet_file;
mod points;
mod prove;
mod reasons;
mod recorder;
mod recovery;
mod refill;
mod refilled_rows;
mod refiller;
mod rows;
mod salvage;
mod samples;
mod seal;
mod segment;
mod stamped;
mod statements;
mod store;
mod told;
mod verify;
mod version;
mod wanted;

pub use catalogue::{Archive, Recording, RecordingState, StoredSegment, StreamEntry, Unreadable};
pub use columns::{INDEX_COLUMN, TIME_COLUMN, arrow_schema};
pub use compact::{Compacted, Compactor, compact, compact_run};
pub use description::{Description, DescriptionError};
pub use disk_level::{DiskAlarm, DiskLevel};
pub use error::ArchiveError;
pub use experiment_runs::{ExperimentRuns, SelectError, run_range, select_run};
pub use export::{CsvTimes, Export, Exported, WavError};
pub use feed::{EpochFeed, Feed, Hole, Piece};
pub use folders::{ClosedSegment, RunName, RunNameError, stream_folder};
pub use gaps::{GapKey, GapMap, GapMapError, GapRecord, Head, Line, Mended, Origin, Owner, Session, Trim};
pub use index::{Entry, Header, Index, IndexError};
pub use moment::{Moment, MomentError, moment_text};
pub use points::{Extremes, MAX_POINTS, Points, PointsRequest};
pub use prove::{Proof, Ruling, Signatory};
pub use reasons::Reasons;
pub use recorder::{Notice, Options, Progress, Recorder, Totals};
pub use refill::Refilled;
pub use refiller::{Refiller, Supply, Want};
pub use samples::{SampleRun, Samples};
pub use store::{Appendable, FileStore, Lock, Readable, Store, StoreError, draft_of, read_whole, replace};
pub use verify::{Finding, Scope, Verification, Verifying};
