//! A frame that shows one whole sample: a matrix, reduced to the pixels that the page has for it.
//!
//! Start with [`PictureFrame`]; which pixels there are is decided by [`sample::Picture`].

use sample::{Picture, Pixels, Plane};
use units::WallTime;
use zerocopy::IntoBytes;

use super::{
    Input, KIND_PICTURE, NO_TIME, PAGE_MAGIC, PAGE_VERSION, PageFrameError, TraceState, fill, filling, flag,
    known, layout, within,
};

/// Maximum number of pixels of a picture: 1 MB as f32, half a second of what a viewer gets.
pub const MAX_PICTURE_PIXELS: u32 = 1 << 18;

const FORM_NONE: u8 = 0;
const FORM_VALUES: u8 = 1;
const FORM_STEPS: u8 = 2;
const FLAG_LIVE: u8 = 1;
const FLAG_THINNED_FURTHER: u8 = 2;
const FLAG_MAX: u8 = 4;
const FLAG_NEAREST: u8 = 8;
const FLAGS: u8 = FLAG_LIVE | FLAG_THINNED_FURTHER | FLAG_MAX | FLAG_NEAREST;

/// All data that a viewer needs to redraw the newest sample of a channel in a window.
#[derive(Clone, PartialEq, Debug)]
pub struct PictureFrame {
    /// Number of the frame in its connection, from 0; the page's credit refers to it.
    pub frame: u32,
    /// The view requested by the page.
    pub view: u32,
    /// State of its stream.
    pub state: TraceState,
    /// True if the view follows the newest data.
    pub live: bool,
    /// True if it is reduced further than its size asks for, because the viewer is slow.
    pub thinned_further: bool,
    /// True if a pixel is the maximum of its elements, false if it is their mean.
    pub is_max: bool,
    /// Reason why samples are not kept for pictures.
    pub obstacle: Option<Obstacle>,
    /// Time by the server's clock.
    pub now: WallTime,
    /// Time of the oldest sample that is kept; `None` if there is none.
    pub kept_from: Option<WallTime>,
    /// Number of frames not sent to this viewer since it connected.
    pub dropped_frames: u32,
    /// The sample; `None` if none is kept at or before the window's end.
    pub sample: Option<PictureSample>,
}

/// The sample that a picture shows.
#[derive(Clone, PartialEq, Debug)]
pub struct PictureSample {
    /// Time of the sample.
    pub time: WallTime,
    /// Index of the sample since the epoch began.
    pub index: u64,
    /// Number of samples that arrived since the view's previous frame and were not shown.
    pub skipped: u64,
    /// Number of matrices in a sample.
    pub planes: u32,
    /// The one of them that is shown.
    pub plane: Plane,
    /// Rows and columns of the matrix before it was reduced.
    pub size: [u32; 2],
    /// Of values: the smallest and largest finite one, NaN if there is none. Of steps: the values of steps 0 and 255.
    pub range: [f64; 2],
    /// The pixels.
    pub picture: Picture,
}

/// Reason why the server keeps no samples of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Obstacle {
    /// One sample has more bytes than are kept of a channel.
    TooLarge = 1,
    /// Other channels take all memory that there is for pictures.
    NoRoom = 2,
    /// The newest sample of before the first request was not kept, and none has come since.
    Unasked = 3,
}

impl PictureFrame {
    /// Returns the number of bytes that [`PictureFrame::encode`] appends.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        let pixels = self.sample.as_ref().map_or(0, |sample| pixels_bytes(&sample.picture.pixels));
        size_of::<layout::Picture>() + pixels + filling(pixels)
    }

    /// Appends the frame.
    ///
    /// Cost: one pass, at most one allocation.
    ///
    /// # Errors
    /// [`PageFrameError::TooMany`], with nothing appended.
    ///
    /// # Panics
    /// If a picture has another number of pixels than its rows and columns, or is not its matrix reduced by its block.
    pub fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), PageFrameError> {
        let sample = self.sample.as_ref();
        if let Some(sample) = sample {
            let Picture { rows, columns, block, pixels } = &sample.picture;
            let count = *rows as usize * *columns as usize;
            within("pixels", count, MAX_PICTURE_PIXELS as usize)?;
            assert_eq!(pixels_count(pixels), count, "one value for each pixel");
            assert!(is_reduced(sample.size, *block, [*rows, *columns]), "the matrix reduced by its block");
        }
        let picture = sample.map(|sample| &sample.picture);
        let block = picture.map_or([1, 1], |picture| picture.block);
        let range = sample.map_or([f64::NAN; 2], |sample| sample.range);
        let size = sample.map_or([0, 0], |sample| sample.size);
        let plane = sample.map_or(Plane::default(), |sample| sample.plane);
        let flags = flag(self.live, FLAG_LIVE.into())
            | flag(self.thinned_further, FLAG_THINNED_FURTHER.into())
            | flag(self.is_max, FLAG_MAX.into())
            | flag(plane.is_nearest, FLAG_NEAREST.into());
        let nanos = |time: Option<WallTime>| time.map_or(NO_TIME, WallTime::as_nanos);
        let header = layout::Picture {
            magic: PAGE_MAGIC.into(),
            version: PAGE_VERSION,
            kind: KIND_PICTURE,
            frame: self.frame.into(),
            view: self.view.into(),
            state: self.state as u8,
            form: picture.map_or(FORM_NONE, |picture| form(&picture.pixels)),
            picture_flags: flags as u8,
            obstacle: self.obstacle.map_or(0, |obstacle| obstacle as u8),
            now_ns: self.now.as_nanos().into(),
            sample_ns: nanos(sample.map(|sample| sample.time)).into(),
            sample_index: sample.map_or(0, |sample| sample.index).into(),
            skipped_samples: sample.map_or(0, |sample| sample.skipped).into(),
            rows: picture.map_or(0, |picture| picture.rows).into(),
            columns: picture.map_or(0, |picture| picture.columns).into(),
            sample_rows: size[0].into(),
            sample_columns: size[1].into(),
            block_rows: block[0].into(),
            block_columns: block[1].into(),
            low: range[0].into(),
            high: range[1].into(),
            kept_from_ns: nanos(self.kept_from).into(),
            dropped_frames: self.dropped_frames.into(),
            planes: sample.map_or(0, |sample| sample.planes).into(),
            plane: plane.number.into(),
            picture_reserved: 0.into(),
        };
        bytes.reserve(self.encoded_bytes());
        bytes.extend_from_slice(header.as_bytes());
        if let Some(Picture { pixels, .. }) = picture {
            match pixels {
                Pixels::Values(values) => bytes.extend(values.iter().flat_map(|value| value.to_le_bytes())),
                Pixels::Steps(steps) => bytes.extend_from_slice(steps),
            }
            let filled = pixels_bytes(pixels);
            fill(bytes, filled);
        }
        Ok(())
    }

    /// Reads a frame; every accepted frame encodes to the same bytes again, except for the bits of a NaN.
    ///
    /// # Errors
    /// [`PageFrameError`] for all bytes other than a complete, known frame.
    pub fn decode(bytes: &[u8]) -> Result<Self, PageFrameError> {
        let (mut input, header) = Input::begin::<layout::Picture>(bytes, KIND_PICTURE)?;
        let flags = header.picture_flags;
        known("picture_flags", flags, flags & !FLAGS == 0)?;
        known("picture_reserved", header.picture_reserved.get(), header.picture_reserved == 0)?;
        let obstacle = match header.obstacle {
            0 => None,
            1 => Some(Obstacle::TooLarge),
            2 => Some(Obstacle::NoRoom),
            3 => Some(Obstacle::Unasked),
            value => return Err(PageFrameError::Unknown { field: "obstacle", value: value.into() }),
        };
        let time = |nanos: i64| Some(WallTime::from_nanos(nanos)).filter(|_| nanos != NO_TIME);
        let sample = read_sample(&mut input, header)?;
        input.end()?;
        Ok(Self {
            frame: header.frame.get(),
            view: header.view.get(),
            state: TraceState::from_code(header.state)?,
            live: flags & FLAG_LIVE != 0,
            thinned_further: flags & FLAG_THINNED_FURTHER != 0,
            is_max: flags & FLAG_MAX != 0,
            obstacle,
            now: WallTime::from_nanos(header.now_ns.get()),
            kept_from: time(header.kept_from_ns.get()),
            dropped_frames: header.dropped_frames.get(),
            sample,
        })
    }
}

fn read_sample(
    input: &mut Input<'_>,
    header: &layout::Picture,
) -> Result<Option<PictureSample>, PageFrameError> {
    let (rows, columns) = (header.rows.get(), header.columns.get());
    let size = [header.sample_rows.get(), header.sample_columns.get()];
    let block = [header.block_rows.get(), header.block_columns.get()];
    let sample_ns = header.sample_ns.get();
    let plane = Plane { number: header.plane.get(), is_nearest: header.picture_flags & FLAG_NEAREST != 0 };
    if header.form == FORM_NONE {
        let nothing = [rows, columns, size[0], size[1], header.planes.get()];
        known("rows", u64::from(nothing != [0; 5]), nothing == [0; 5] && block == [1, 1])?;
        known("plane", plane.number, plane == Plane::default())?;
        let is_bare = header.sample_index.get() == 0 && header.skipped_samples.get() == 0;
        known("sample_index", header.sample_index.get(), is_bare)?;
        known("low", header.low.get().to_bits(), header.low.get().is_nan() && header.high.get().is_nan())?;
        known("sample_ns", sample_ns.cast_unsigned(), sample_ns == NO_TIME)?;
        return Ok(None);
    }
    known("sample_ns", sample_ns.cast_unsigned(), sample_ns != NO_TIME)?;
    known("planes", header.planes.get(), header.planes.get() > 0)?;
    known("plane", plane.number, plane.number < header.planes.get())?;
    known("rows", rows, is_reduced(size, block, [rows, columns]))?;
    let count = (rows as usize).saturating_mul(columns as usize);
    within("pixels", count, MAX_PICTURE_PIXELS as usize)?;
    let (pixels, filled) = match header.form {
        FORM_VALUES => {
            let values = input.many::<zerocopy::byteorder::little_endian::F32>("pixels", count)?;
            (Pixels::Values(values.iter().map(|value| value.get()).collect()), count * size_of::<f32>())
        }
        FORM_STEPS => (Pixels::Steps(input.many::<u8>("pixels", count)?.to_vec()), count),
        form => return Err(PageFrameError::Unknown { field: "form", value: form.into() }),
    };
    input.filling("pixels", filled)?;
    Ok(Some(PictureSample {
        time: WallTime::from_nanos(sample_ns),
        index: header.sample_index.get(),
        skipped: header.skipped_samples.get(),
        planes: header.planes.get(),
        plane,
        size,
        range: [header.low.get(), header.high.get()],
        picture: Picture { rows, columns, block, pixels },
    }))
}

/// Returns whether a matrix of `size`, reduced by `block`, has this many rows and columns.
fn is_reduced(size: [u32; 2], block: [u32; 2], reduced: [u32; 2]) -> bool {
    (0..2).all(|side| size[side] > 0 && block[side] > 0 && size[side].div_ceil(block[side]) == reduced[side])
}

const fn form(pixels: &Pixels) -> u8 {
    match pixels {
        Pixels::Values(_) => FORM_VALUES,
        Pixels::Steps(_) => FORM_STEPS,
    }
}

const fn pixels_count(pixels: &Pixels) -> usize {
    match pixels {
        Pixels::Values(values) => values.len(),
        Pixels::Steps(steps) => steps.len(),
    }
}

fn pixels_bytes(pixels: &Pixels) -> usize {
    match pixels {
        Pixels::Values(values) => size_of_val(values.as_slice()),
        Pixels::Steps(steps) => steps.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{
        Coded, NOON, assert_any_byte_may_be_wrong, assert_cut_is_refused, assert_golden,
    };
    use super::*;

    const VALUES: &str = include_str!("../../../../../docs/protocol/golden/picture-values.hex");
    const STEPS: &str = include_str!("../../../../../docs/protocol/golden/picture-steps.hex");
    const NOTHING: &str = include_str!("../../../../../docs/protocol/golden/picture-nothing.hex");

    /// A following view of a matrix of 4 × 5, reduced by blocks of 2 × 2; one block has no numbers.
    fn values() -> PictureFrame {
        let pixels = Pixels::Values(vec![20.5, f32::NAN, -3.25, 80.0, 21.0, 22.0]);
        let sample = PictureSample {
            time: NOON.offset(-50_000_000),
            index: 4_711,
            skipped: 2,
            planes: 1,
            plane: Plane::default(),
            size: [4, 5],
            range: [-3.25, 80.0],
            picture: Picture { rows: 2, columns: 3, block: [2, 2], pixels },
        };
        PictureFrame {
            frame: 41,
            view: 7,
            state: TraceState::Ok,
            live: true,
            thinned_further: false,
            is_max: false,
            obstacle: None,
            now: NOON,
            kept_from: Some(NOON.offset(-60_000_000_000)),
            dropped_frames: 3,
            sample: Some(sample),
        }
    }

    /// A view of the past: the second of three planes of 8-bit elements, 1 × 3, of which nothing is reduced.
    fn steps() -> PictureFrame {
        let picture =
            Picture { rows: 1, columns: 3, block: [1, 1], pixels: Pixels::Steps(vec![0, 128, 255]) };
        let sample = PictureSample {
            skipped: 0,
            planes: 3,
            plane: Plane { number: 1, is_nearest: false },
            size: [1, 3],
            range: [0.5, 128.0],
            picture,
            ..values().sample.unwrap()
        };
        PictureFrame {
            state: TraceState::Ended,
            live: false,
            thinned_further: true,
            is_max: true,
            sample: Some(sample),
            ..values()
        }
    }

    /// A channel of which one sample is larger than what is kept.
    fn nothing() -> PictureFrame {
        PictureFrame { obstacle: Some(Obstacle::TooLarge), kept_from: None, sample: None, ..values() }
    }

    #[test]
    fn golden_frames_are_written_and_read_byte_for_byte() {
        let all = [(values(), VALUES), (steps(), STEPS), (nothing(), NOTHING)];
        assert_golden(&all);
        for (frame, _) in &all {
            assert_eq!(frame.encoded_bytes(), frame.encoded().len());
        }
    }

    #[test]
    fn a_frame_cut_anywhere_is_refused() {
        assert_cut_is_refused(&[values(), steps(), nothing()]);
    }

    #[test]
    fn any_byte_may_be_wrong_without_harm() {
        assert_any_byte_may_be_wrong(&[values(), steps(), nothing()]);
    }

    #[test]
    fn what_contradicts_itself_or_is_not_known_is_refused() {
        let refused = |frame: &PictureFrame, place: usize, value: u8| {
            let mut bytes = frame.encoded();
            bytes[place] = value;
            PictureFrame::decode(&bytes).unwrap_err().to_string()
        };
        for (place, field) in [(0, "magic"), (2, "version"), (3, "kind"), (12, "state"), (13, "form")] {
            assert!(refused(&values(), place, 0x7e).contains(&format!("`{field}`")), "{field}");
        }
        for (place, field) in [(14, "picture_flags"), (15, "obstacle"), (48, "rows"), (100, "planes")] {
            let value = if place == 100 { 0 } else { 0x7e };
            assert!(refused(&values(), place, value).contains(&format!("`{field}`")), "{field}");
        }
        // The last of three planes, and none behind it.
        assert!(refused(&steps(), 104, 3).contains("`plane`"));
        assert!(refused(&nothing(), 104, 1).contains("`plane`"));
        assert!(refused(&nothing(), 14, FLAG_LIVE | FLAG_NEAREST).contains("`plane`"));
        assert!(refused(&values(), 108, 1).contains("`picture_reserved`"));
        let padded = steps().encoded().len() - 1;
        assert!(refused(&steps(), padded, 1).contains("`pixels`"));
        assert!(refused(&nothing(), 32, 1).contains("`sample_index`"));
        assert!(refused(&nothing(), 24, 1).contains("`sample_ns`"));
    }

    #[test]
    fn a_frame_holds_what_it_may_and_not_one_pixel_more() {
        let of = |columns: u32| {
            let mut frame = values();
            let sample = frame.sample.as_mut().unwrap();
            sample.size = [1, columns];
            let pixels = Pixels::Steps(vec![0; columns as usize]);
            sample.picture = Picture { rows: 1, columns, block: [1, 1], pixels };
            frame.encode(&mut Vec::new())
        };
        assert_eq!(of(MAX_PICTURE_PIXELS), Ok(()));
        assert!(of(MAX_PICTURE_PIXELS + 1).is_err());
    }
}
