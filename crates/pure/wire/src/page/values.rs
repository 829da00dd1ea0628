//! A frame of newest values: of each channel of a table one sample, as it was published.
//!
//! A row is sent when it has changed. Start with [`ValuesFrame`].

use units::WallTime;
use zerocopy::IntoBytes;

use super::{
    Input, KIND_VALUES, MAX_PAGE_TRACES, NO_TIME, PAGE_MAGIC, PAGE_VERSION, PageFrameError, TraceState, flag,
    known, layout, within,
};

/// Maximum number of elements of one sample that a row has values of, the first ones.
pub const MAX_ROW_VALUES: usize = 4;

const FORM_NONE: u8 = 0;
const FORM_DOUBLE: u8 = 1;
const FORM_SIGNED: u8 = 2;
const FORM_UNSIGNED: u8 = 3;
const FORM_BOOL: u8 = 4;
const FORM_COMPLEX: u8 = 5;
const FORM_SPAN: u8 = 6;
const FLAG_LIVE: u16 = 1;
const FLAG_WHOLE: u16 = 2;

/// The rows of a table that have changed.
#[derive(Clone, PartialEq, Debug)]
pub struct ValuesFrame {
    /// Number of the frame in its connection, from 0; the page's credit refers to it.
    pub frame: u32,
    /// The view requested by the page.
    pub view: u32,
    /// True if it follows the newest data.
    pub live: bool,
    /// True if it has every row.
    pub whole: bool,
    /// Time by the server's clock.
    pub now: WallTime,
    /// Number of frames not sent to this viewer since it connected.
    pub dropped_frames: u32,
    /// The rows, in the order of the view's request.
    pub rows: Vec<ValueRow>,
}

/// One channel of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct ValueRow {
    /// Index of the channel in the view's request.
    pub index: u16,
    /// State of its stream.
    pub state: TraceState,
    /// Its sample, or why there is none.
    pub sample: Result<ValueSample, NoSample>,
}

/// Reason why a row has no sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum NoSample {
    /// None has come yet, or none of the past is kept and there is no archive.
    NotKept = 0,
    /// The archive is being asked.
    Asked = 1,
    /// The sample that was due was lost, and none before it is known.
    Lost = 2,
    /// Neither live memory nor the archive has one.
    NotRecorded = 3,
    /// The archive cannot be read.
    Unreadable = 4,
}

impl NoSample {
    fn from_code(code: u8) -> Result<Self, PageFrameError> {
        const ALL: [NoSample; 5] =
            [NoSample::NotKept, NoSample::Asked, NoSample::Lost, NoSample::NotRecorded, NoSample::Unreadable];
        let unknown = || PageFrameError::Unknown { field: "no_sample", value: code.into() };
        ALL.into_iter().find(|it| *it as u8 == code).ok_or_else(unknown)
    }
}

/// The sample of a row.
#[derive(Clone, PartialEq, Debug)]
pub struct ValueSample {
    /// Time of the sample; of [`Values::Span`] the end of the time that its samples are from.
    pub time: WallTime,
    /// Number of elements of the channel.
    pub elements: u32,
    /// Number of its elements that never arrived.
    pub lost_elements: u32,
    /// Bit k: element k of `values` never arrived.
    pub lost_values: u8,
    /// Smallest and largest element that is a number, complex ones by their magnitude; NaN if there is none.
    pub range: [f64; 2],
    /// The first elements.
    pub values: Values,
}

/// The first elements of a sample, in the channel's unit.
#[derive(Clone, PartialEq, Debug)]
pub enum Values {
    /// Floats, and integers with a scale.
    Double(Vec<f64>),
    /// Signed integers without a scale.
    Signed(Vec<i64>),
    /// Unsigned integers without a scale.
    Unsigned(Vec<u64>),
    /// Booleans.
    Bool(Vec<bool>),
    /// Real and imaginary parts.
    Complex(Vec<[f64; 2]>),
    /// Of this time only the extremes of many samples are kept: see [`ValueSample::range`].
    Span,
}

impl Values {
    /// Returns their number.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Double(values) => values.len(),
            Self::Signed(values) => values.len(),
            Self::Unsigned(values) => values.len(),
            Self::Bool(values) => values.len(),
            Self::Complex(values) => values.len(),
            Self::Span => 0,
        }
    }

    /// Returns whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    const fn form(&self) -> u8 {
        match self {
            Self::Double(_) => FORM_DOUBLE,
            Self::Signed(_) => FORM_SIGNED,
            Self::Unsigned(_) => FORM_UNSIGNED,
            Self::Bool(_) => FORM_BOOL,
            Self::Complex(_) => FORM_COMPLEX,
            Self::Span => FORM_SPAN,
        }
    }

    fn encode(&self, bytes: &mut Vec<u8>) {
        let mut put = |value: [u8; 8]| bytes.extend_from_slice(layout::Value { value }.as_bytes());
        match self {
            Self::Double(values) => values.iter().for_each(|value| put(value.to_le_bytes())),
            Self::Signed(values) => values.iter().for_each(|value| put(value.to_le_bytes())),
            Self::Unsigned(values) => values.iter().for_each(|value| put(value.to_le_bytes())),
            Self::Bool(values) => values.iter().for_each(|value| put(u64::from(*value).to_le_bytes())),
            Self::Complex(values) => values.as_flattened().iter().for_each(|part| put(part.to_le_bytes())),
            Self::Span => {}
        }
    }

    fn decode(input: &mut Input<'_>, form: u8, count: usize) -> Result<Self, PageFrameError> {
        let doubles = |parts: &[layout::Value]| parts.iter().map(|it| f64::from_le_bytes(it.value)).collect();
        Ok(match form {
            FORM_DOUBLE => Self::Double(doubles(input.many("values", count)?)),
            FORM_SIGNED => {
                let values = input.many::<layout::Value>("values", count)?;
                Self::Signed(values.iter().map(|it| i64::from_le_bytes(it.value)).collect())
            }
            FORM_UNSIGNED => {
                let values = input.many::<layout::Value>("values", count)?;
                Self::Unsigned(values.iter().map(|it| u64::from_le_bytes(it.value)).collect())
            }
            FORM_BOOL => {
                let values = input.many::<layout::Value>("values", count)?;
                let bool_of = |it: &layout::Value| match u64::from_le_bytes(it.value) {
                    0 => Ok(false),
                    1 => Ok(true),
                    value => Err(PageFrameError::Unknown { field: "value", value }),
                };
                Self::Bool(values.iter().map(bool_of).collect::<Result<_, _>>()?)
            }
            FORM_COMPLEX => {
                let parts: Vec<f64> = doubles(input.many("values", 2 * count)?);
                Self::Complex(parts.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect())
            }
            FORM_SPAN => {
                known("value_count", count as u64, count == 0)?;
                Self::Span
            }
            form => return Err(PageFrameError::Unknown { field: "row_form", value: form.into() }),
        })
    }
}

impl ValueRow {
    /// Appends the row. Equal bytes are equal rows.
    ///
    /// # Errors
    /// [`PageFrameError::TooMany`], with nothing appended.
    pub fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), PageFrameError> {
        let sample = self.sample.as_ref().ok();
        let count = sample.map_or(0, |sample| sample.values.len());
        within("values of a row", count, MAX_ROW_VALUES)?;
        let range = sample.map_or([f64::NAN; 2], |sample| sample.range);
        let head = layout::Row {
            index: self.index.into(),
            state: self.state as u8,
            row_form: sample.map_or(FORM_NONE, |sample| sample.values.form()),
            value_count: count as u8,
            lost_values: sample.map_or(0, |sample| sample.lost_values),
            no_sample: self.sample.as_ref().err().map_or(0, |reason| *reason as u8),
            row_reserved: 0,
            elements: sample.map_or(0, |sample| sample.elements).into(),
            lost_elements: sample.map_or(0, |sample| sample.lost_elements).into(),
            sample_ns: sample.map_or(NO_TIME, |sample| sample.time.as_nanos()).into(),
            low: range[0].into(),
            high: range[1].into(),
        };
        bytes.extend_from_slice(head.as_bytes());
        if let Some(sample) = sample {
            sample.values.encode(bytes);
        }
        Ok(())
    }

    fn decode(input: &mut Input<'_>) -> Result<Self, PageFrameError> {
        let head: &layout::Row = input.one("row")?;
        known("row_reserved", head.row_reserved, head.row_reserved == 0)?;
        let reason = NoSample::from_code(head.no_sample)?;
        let count = usize::from(head.value_count);
        within("values of a row", count, MAX_ROW_VALUES)?;
        let (time, elements) = (head.sample_ns.get(), head.elements.get());
        let (index, state) = (head.index.get(), TraceState::from_code(head.state)?);
        known("lost_values", head.lost_values, u32::from(head.lost_values) < 1 << count)?;
        known("lost_elements", head.lost_elements.get(), head.lost_elements.get() <= elements)?;
        if head.row_form == FORM_NONE {
            known("value_count", head.value_count, count == 0)?;
            known("elements", elements, elements == 0)?;
            known("sample_ns", time.cast_unsigned(), time == NO_TIME)?;
            known("low", head.low.get().to_bits(), head.low.get().is_nan() && head.high.get().is_nan())?;
            return Ok(Self { index, state, sample: Err(reason) });
        }
        known("no_sample", head.no_sample, head.no_sample == 0)?;
        known("sample_ns", time.cast_unsigned(), time != NO_TIME)?;
        known("value_count", head.value_count, count <= elements as usize)?;
        let sample = ValueSample {
            time: WallTime::from_nanos(time),
            elements,
            lost_elements: head.lost_elements.get(),
            lost_values: head.lost_values,
            range: [head.low.get(), head.high.get()],
            values: Values::decode(input, head.row_form, count)?,
        };
        Ok(Self { index, state, sample: Ok(sample) })
    }
}

impl ValuesFrame {
    /// Appends the frame.
    ///
    /// # Errors
    /// [`PageFrameError::TooMany`], with nothing appended.
    pub fn encode(&self, bytes: &mut Vec<u8>) -> Result<(), PageFrameError> {
        within("traces", self.rows.len(), MAX_PAGE_TRACES)?;
        let head = layout::Values {
            magic: PAGE_MAGIC.into(),
            version: PAGE_VERSION,
            kind: KIND_VALUES,
            frame: self.frame.into(),
            view: self.view.into(),
            row_count: (self.rows.len() as u16).into(),
            values_flags: (flag(self.live, FLAG_LIVE) | flag(self.whole, FLAG_WHOLE)).into(),
            now_ns: self.now.as_nanos().into(),
            dropped_frames: self.dropped_frames.into(),
            values_reserved: 0.into(),
        };
        let start = bytes.len();
        bytes.extend_from_slice(head.as_bytes());
        self.rows.iter().try_for_each(|row| row.encode(bytes)).inspect_err(|_| bytes.truncate(start))
    }

    /// Reads a frame; every accepted frame encodes to the same bytes again, except for the bits of a NaN.
    ///
    /// # Errors
    /// [`PageFrameError`] for all bytes other than a complete, known frame.
    pub fn decode(bytes: &[u8]) -> Result<Self, PageFrameError> {
        let (mut input, head) = Input::begin::<layout::Values>(bytes, KIND_VALUES)?;
        let flags = head.values_flags.get();
        known("values_flags", flags, flags & !(FLAG_LIVE | FLAG_WHOLE) == 0)?;
        known("values_reserved", head.values_reserved.get(), head.values_reserved == 0)?;
        let count = usize::from(head.row_count.get());
        within("traces", count, MAX_PAGE_TRACES)?;
        let rows = (0..count).map(|_| ValueRow::decode(&mut input)).collect::<Result<_, _>>()?;
        input.end()?;
        Ok(Self {
            frame: head.frame.get(),
            view: head.view.get(),
            live: flags & FLAG_LIVE != 0,
            whole: flags & FLAG_WHOLE != 0,
            now: WallTime::from_nanos(head.now_ns.get()),
            dropped_frames: head.dropped_frames.get(),
            rows,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{
        Coded, NOON, assert_any_byte_may_be_wrong, assert_cut_is_refused, assert_golden,
    };
    use super::*;

    const ROWS: &str = include_str!("../../../../../docs/protocol/golden/values-rows.hex");
    const HELD: &str = include_str!("../../../../../docs/protocol/golden/values-held.hex");

    fn sample(elements: u32, range: [f64; 2], values: Values) -> ValueSample {
        ValueSample { time: NOON.offset(-1), elements, lost_elements: 0, lost_values: 0, range, values }
    }

    fn row(index: u16, sample: ValueSample) -> ValueRow {
        ValueRow { index, state: TraceState::Ok, sample: Ok(sample) }
    }

    /// The first frame of a table that follows: a row of each form, the last of an unknown channel.
    fn rows() -> ValuesFrame {
        let nan = Values::Double(vec![f64::NAN]);
        let field = Values::Double(vec![20.5, 0.0, 22.0, 23.0]);
        let partial = ValueSample { lost_elements: 7, lost_values: 2, ..sample(1_536, [20.5, 80.25], field) };
        let rows = vec![
            row(0, sample(1, [0.1, 0.1], Values::Double(vec![0.1]))),
            row(1, sample(1, [f64::NAN; 2], nan)),
            row(2, sample(1, [-9.007_199_254_740_992e15; 2], Values::Signed(vec![-9_007_199_254_740_993]))),
            row(3, sample(1, [1.844_674_407_370_955_2e19; 2], Values::Unsigned(vec![u64::MAX]))),
            row(4, sample(2, [0.0, 1.0], Values::Bool(vec![true, false]))),
            row(5, sample(1, [5.0, 5.0], Values::Complex(vec![[3.0, -4.0]]))),
            row(6, partial),
            ValueRow { index: 7, state: TraceState::Unknown, sample: Err(NoSample::NotKept) },
        ];
        ValuesFrame { frame: 41, view: 7, live: true, whole: true, now: NOON, dropped_frames: 3, rows }
    }

    /// A table of the past, of which three rows have changed: of one that has ended only extremes are kept, of one the
    /// archive is being asked, and of one there is nothing in it.
    fn held() -> ValuesFrame {
        let span = sample(1, [-1.5, 2.5], Values::Span);
        let rows = vec![
            ValueRow { index: 2, state: TraceState::Ended, sample: Ok(span) },
            ValueRow { index: 3, state: TraceState::Ok, sample: Err(NoSample::Asked) },
            ValueRow { index: 4, state: TraceState::Stale, sample: Err(NoSample::NotRecorded) },
        ];
        ValuesFrame { frame: 42, live: false, whole: false, rows, ..rows_head() }
    }

    fn rows_head() -> ValuesFrame {
        ValuesFrame { rows: Vec::new(), ..rows() }
    }

    #[test]
    fn golden_frames_are_written_and_read_byte_for_byte() {
        assert_golden(&[(rows(), ROWS), (held(), HELD)]);
    }

    #[test]
    fn a_frame_cut_anywhere_is_refused() {
        assert_cut_is_refused(&[rows(), held()]);
    }

    #[test]
    fn any_byte_may_be_wrong_without_harm() {
        assert_any_byte_may_be_wrong(&[rows(), held()]);
    }

    #[test]
    fn what_contradicts_itself_or_is_not_known_is_refused() {
        let refused = |frame: &ValuesFrame, place: usize, value: u8| {
            let mut bytes = frame.encoded();
            bytes[place] = value;
            ValuesFrame::decode(&bytes).unwrap_err().to_string()
        };
        for (place, field) in [
            (0, "magic"),
            (2, "version"),
            (3, "kind"),
            (14, "values_flags"),
            (28, "values_reserved"),
            (34, "state"),
            (35, "row_form"),
            (37, "lost_values"),
            (38, "no_sample"),
            (39, "row_reserved"),
            (44, "lost_elements"),
        ] {
            assert!(refused(&rows(), place, 0x7e).contains(&format!("`{field}`")), "{field}");
        }
        assert!(refused(&rows(), 36, 5).contains("values of a row"));
        assert!(refused(&rows(), 36, 2).contains("`value_count`"), "more values than elements");
        assert!(refused(&held(), 36, 1).contains("`value_count`"), "a span has none");
        assert!(refused(&held(), 35, 0).contains("`elements`"));
        assert!(
            refused(&held(), 38, 1).contains("`no_sample`"),
            "a row with a sample has no reason for none"
        );
        // The two values of the fifth row, behind four rows of one value each.
        let second = 32 + 4 * 48 + 40 + 8;
        assert!(refused(&rows(), second, 2).contains("`value`"));
    }

    #[test]
    fn a_row_has_four_values_and_not_one_more() {
        let of = |count: usize| {
            let values = Values::Double(vec![0.0; count]);
            let frame = ValuesFrame { rows: vec![row(0, sample(9, [0.0; 2], values))], ..rows_head() };
            let mut bytes = Vec::new();
            (frame.encode(&mut bytes).is_ok(), bytes.is_empty())
        };
        assert_eq!((of(MAX_ROW_VALUES), of(MAX_ROW_VALUES + 1)), ((true, false), (false, true)));
    }
}
