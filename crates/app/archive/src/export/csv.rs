//! CSV export for people and spreadsheets.

use std::fmt::Write as _;
use std::io::{BufWriter, Write};

use jiff::Timestamp;
use sample::{Block, Channel, Dtype, Schema};
use units::WallTime;

use super::{Export, Exported};
use crate::columns::{INDEX_COLUMN, TIME_COLUMN, column_name};
use crate::error::ArchiveError;
use crate::feed::{Hole, Piece};

/// Form of the times in a CSV export.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CsvTimes {
    /// Column `time_ns`: nanoseconds since 1970 UTC.
    #[default]
    Nanoseconds,
    /// Column `time`: ISO 8601 in UTC to the nanosecond, such as `2026-11-21T20:15:00.000000000Z`.
    Iso,
}

pub(super) fn write(
    export: &Export<'_>,
    target: impl Write,
    times: CsvTimes,
) -> Result<Exported, ArchiveError> {
    let mut target = BufWriter::new(target);
    target.write_all(head(&export.recording.description.schema, times).as_bytes())?;
    let mut exported = Exported::default();
    let mut line = String::new();
    for piece in export.pieces() {
        match piece? {
            Piece::Block(block) => {
                for sample in 0..usize::try_from(block.samples).expect("a block lies in memory") {
                    line.clear();
                    row(&mut line, &block, sample, times);
                    target.write_all(line.as_bytes())?;
                }
                exported.samples += block.samples;
            }
            Piece::Hole(hole) => {
                target.write_all(comment(&hole).as_bytes())?;
                exported.holes.push(hole);
            }
            Piece::Epoch(_) => {}
        }
    }
    target.flush()?;
    Ok(exported)
}

/// Returns the header: `index,time_ns,current [A],image[0]`, unit in brackets, element of an array behind the name.
fn head(schema: &Schema, times: CsvTimes) -> String {
    let mut head = format!("{INDEX_COLUMN},{}", times.column());
    for channel in &schema.channels {
        let unit = if channel.unit.is_empty() { String::new() } else { format!(" [{}]", channel.unit) };
        let name = if channel.name == times.column() {
            format!("channel:{}", channel.name)
        } else {
            column_name(&channel.name)
        };
        let elements = channel.elements().expect("a checked schema");
        for element in 0..elements {
            let place = if channel.shape.is_empty() { String::new() } else { format!("[{element}]") };
            let parts: &[&str] = if is_complex(schema.dtype) { &[" re", " im"] } else { &[""] };
            for part in parts {
                head.push(',');
                head.push_str(&quoted(&format!("{name}{place}{part}{unit}")));
            }
        }
    }
    head + "\n"
}

impl CsvTimes {
    const fn column(self) -> &'static str {
        match self {
            Self::Nanoseconds => TIME_COLUMN,
            Self::Iso => "time",
        }
    }

    fn write(self, line: &mut String, time: WallTime) {
        let written = match self {
            Self::Nanoseconds => write!(line, ",{}", time.as_nanos()),
            Self::Iso => {
                let time = Timestamp::from_nanosecond(time.as_nanos().into());
                write!(line, ",{:.9}", time.expect("years 1677 to 2262 are in the range of timestamps"))
            }
        };
        written.expect("writing to a string never fails");
    }
}

fn is_complex(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::C8 | Dtype::C16)
}

/// Quotes a field where RFC 4180 requires it.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) || field.starts_with('#') {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

fn row(line: &mut String, block: &Block, sample: usize, times: CsvTimes) {
    let schema = &block.schema;
    let index = block.first_index + sample as u64;
    write!(line, "{index}").expect("writing to a string never fails");
    times.write(line, block.time_of(index));
    let size = schema.dtype.size_bytes();
    let bytes = &block.data.as_bytes()[sample * schema.sample_bytes()..(sample + 1) * schema.sample_bytes()];
    let mut position = sample as u64 * u64::from(schema.elements_per_sample());
    let mut elements = bytes.chunks_exact(size);
    for channel in &schema.channels {
        for element in elements.by_ref().take(channel.elements().expect("a checked schema") as usize) {
            if block.missing.contains(position) {
                line.push_str(if is_complex(schema.dtype) { ",," } else { "," });
            } else {
                value(line, schema.dtype, channel, element);
            }
            position += 1;
        }
    }
    line.push('\n');
}

/// Writes a value in its channel's unit. Elements that need no scaling are written exactly.
fn value(line: &mut String, dtype: Dtype, channel: &Channel, element: &[u8]) {
    let infallible = "writing to a string never fails";
    if is_complex(dtype) {
        let (part, half) = if dtype == Dtype::C8 { (Dtype::F4, 4) } else { (Dtype::F8, 8) };
        let (real, imaginary) = element.split_at(half);
        value(line, part, channel, real);
        // The offset shifts the value along the real axis only.
        let unshifted = Channel { offset: 0.0, ..channel.clone() };
        value(line, part, &unshifted, imaginary);
        return;
    }
    line.push(',');
    if (channel.scale, channel.offset) != (1.0, 0.0) {
        let scaled = dtype.to_f64(element).mul_add(channel.scale, channel.offset);
        write!(line, "{scaled}").expect(infallible);
        return;
    }
    macro_rules! exact {
        ($type:ty) => {
            write!(line, "{}", <$type>::from_le_bytes(element.try_into().expect("one element")))
        };
    }
    let written = match dtype {
        Dtype::I64 => exact!(i64),
        Dtype::U64 => exact!(u64),
        Dtype::F4 => exact!(f32),
        _ => write!(line, "{}", dtype.to_f64(element)),
    };
    written.expect(infallible);
}

/// Returns `# hole: 40 samples from index 12, 1700000000000000000 to 1700000000040000000 ns, injected 40`.
fn comment(hole: &Hole) -> String {
    let mut text = format!(
        "# hole: {} samples from index {}, {} to {} ns",
        hole.samples,
        hole.first_index,
        hole.t0.as_nanos(),
        hole.t1.as_nanos()
    );
    for (name, count) in hole.reasons().named() {
        write!(text, ", {name} {count}").expect("writing to a string never fails");
    }
    text + " elements\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::SampleRate;

    #[test]
    fn the_head_names_every_element_with_its_unit() {
        let channels = vec![Channel::new("a, b", "V"), Channel::new("image", "").with_shape([2])];
        let schema = Schema::new(Dtype::F4, SampleRate::hz(1).unwrap(), channels.clone()).unwrap();
        assert_eq!(head(&schema, CsvTimes::Nanoseconds), "index,time_ns,\"a, b [V]\",image[0],image[1]\n");
        let schema = Schema::new(Dtype::C8, SampleRate::hz(1).unwrap(), channels[..1].to_vec()).unwrap();
        assert_eq!(head(&schema, CsvTimes::Nanoseconds), "index,time_ns,\"a, b re [V]\",\"a, b im [V]\"\n");
        let hiding = vec![Channel::new("index", ""), Channel::new("time_ns", "s")];
        let schema = Schema::new(Dtype::F4, SampleRate::hz(1).unwrap(), hiding).unwrap();
        assert_eq!(head(&schema, CsvTimes::Nanoseconds), "index,time_ns,channel:index,channel:time_ns [s]\n");
    }

    #[test]
    fn times_in_iso_8601_have_every_nanosecond_and_their_own_column() {
        let written = |nanos| {
            let mut line = String::new();
            CsvTimes::Iso.write(&mut line, WallTime::from_nanos(nanos));
            line
        };
        assert_eq!(written(1_763_756_051_123_456_789), ",2025-11-21T20:14:11.123456789Z");
        assert_eq!(written(0), ",1970-01-01T00:00:00.000000000Z");
        assert_eq!(written(-1), ",1969-12-31T23:59:59.999999999Z");
        assert_eq!(written(i64::MIN), ",1677-09-21T00:12:43.145224192Z");
        let hiding = vec![Channel::new("time", "s")];
        let schema = Schema::new(Dtype::F4, SampleRate::hz(1).unwrap(), hiding).unwrap();
        assert_eq!(head(&schema, CsvTimes::Iso), "index,time,channel:time [s]\n");
    }

    #[test]
    fn elements_without_scaling_are_written_exactly() {
        let write = |dtype, channel: &Channel, bytes: &[u8]| {
            let mut line = String::new();
            value(&mut line, dtype, channel, bytes);
            line
        };
        let plain = Channel::new("a", "");
        assert_eq!(write(Dtype::U64, &plain, &u64::MAX.to_le_bytes()), ",18446744073709551615");
        assert_eq!(write(Dtype::F4, &plain, &0.1_f32.to_le_bytes()), ",0.1");
        assert_eq!(write(Dtype::I16, &plain, &(-3_i16).to_le_bytes()), ",-3");
        let scaled = plain.with_scale(0.5, 1.0);
        assert_eq!(write(Dtype::I16, &scaled, &3_i16.to_le_bytes()), ",2.5");
    }
}
