//! NPY export: `numpy.load` reads the file directly.
//!
//! Source: NumPy documentation, `numpy.lib.format`, version 1.0.

use std::io::{BufWriter, Seek, SeekFrom, Write};

use sample::Dtype;
use serde_json::{Value, json};

use super::{Export, Exported};
use crate::error::ArchiveError;
use crate::feed::Piece;

/// Size of the header with its magic: the shape is written last, so its size is fixed.
const HEADER_BYTES: usize = 128;

pub(super) fn write(
    export: &Export<'_>,
    target: impl Write + Seek,
) -> Result<(Exported, Value), ArchiveError> {
    let description = &export.recording.description;
    let schema = &description.schema;
    let elements = u64::from(schema.elements_per_sample());
    let mut target = BufWriter::new(target);
    target.write_all(&header(schema.dtype, 0, elements))?;
    let mut exported = Exported::default();
    let mut rows = Vec::new();
    for piece in export.pieces() {
        match piece? {
            Piece::Block(block) => {
                target.write_all(block.data.as_bytes())?;
                let missing: Vec<_> = block.missing.iter().map(|range| [range.start, range.end]).collect();
                rows.push(json!({
                    "row": exported.samples, "samples": block.samples, "first_index": block.first_index,
                    "t0_ns": block.t0.as_nanos(), "missing_elements": missing,
                }));
                exported.samples += block.samples;
            }
            Piece::Hole(hole) => exported.holes.push(hole),
            Piece::Epoch(_) => {}
        }
    }
    target.seek(SeekFrom::Start(0))?;
    target.write_all(&header(schema.dtype, exported.samples, elements))?;
    target.flush()?;
    let beside = json!({
        "format": "tallycast-npy",
        "version": 1,
        "stream": description.to_json(),
        "rows": rows,
        "holes": exported.holes.iter().map(crate::feed::Hole::to_json).collect::<Vec<_>>(),
    });
    Ok((exported, beside))
}

fn header(dtype: Dtype, samples: u64, elements: u64) -> Vec<u8> {
    let dictionary = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({samples}, {elements}), }}",
        dtype.numpy_name()
    );
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    let length = u16::try_from(HEADER_BYTES - 10).expect("the header is short");
    header.extend(length.to_le_bytes());
    header.extend(dictionary.as_bytes());
    header.resize(HEADER_BYTES - 1, b' ');
    header.push(b'\n');
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_shape_fits_into_the_header() {
        let header = header(Dtype::C16, u64::MAX, u64::from(u32::MAX));
        assert_eq!(header.len(), HEADER_BYTES);
        assert_eq!(HEADER_BYTES % 64, 0, "NumPy aligns the data to 64 bytes");
        assert!(header.ends_with(b" \n"));
    }
}
