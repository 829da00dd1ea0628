//! Sources of samples: recorded signals, files, standard input, this host, and test waveforms.
//!
//! A [`Source`] is pulled: it describes its samples and then returns runs of them, or reports that a run is missing
//! and why. It knows nothing of networks and owns no thread. A publishing program asks a [`Player`] what to send at a
//! given moment; the player keeps the true rate without drift or bursts.
//!
//! Start with [`Source`] and [`Player`]; [`open_file`] and [`signals::open`] make the common ones.

mod columns;
mod csv;
mod csv_table;
mod dtypes;
mod file;
mod finite;
mod follow;
mod frames;
mod grid;
mod held;
pub mod host;
mod lines;
mod npy;
mod npz;
mod numbers;
mod piece;
mod playback;
mod player;
mod raw;
mod recording;
mod repeat;
pub mod signals;
mod table;
mod text_file;
mod wav;
mod wave;

pub use columns::ColumnError;
pub use csv::{HeadError, TimeError, TimeUnit};
pub use csv_table::{CsvError, CsvTable};
pub use dtypes::{DtypeError, Number};
pub use file::{
    FileOptions, FileSource, Kind as FileKind, OpenError, PYTHON_EXTENSIONS, TimeColumn, as_word, in_file,
    name_of, open_file,
};
pub use finite::{NotFinite, finite};
pub use follow::{Begin, CsvFollower, FollowError, FollowOptions, Followed, Mark, Rows};
pub use frames::{FrameInput, Frames, FramesError, FramesOptions, Opened, StartReader};
pub use grid::GridError;
pub use lines::{Lines, LinesError, LinesOptions};
pub use npy::{NpyArray, NpyError, ReadSeek};
pub use npz::NpzError;
pub use numbers::{NanPolicy, NumberError};
pub use piece::{Description, HoleKind, MAX_PIECE_BYTES, Piece, Source, SourceError, Timing};
pub use playback::{Playback, Speed, SpeedError};
pub use player::{Player, Step};
pub use raw::{Raw, RawError};
pub use recording::{Recording, RecordingError};
pub use repeat::Repeat;
pub use table::{Table, TableError};
pub use wav::{Wav, WavError};
pub use wave::{Shape, UnknownShape, Wave, WaveError, WaveOptions};
