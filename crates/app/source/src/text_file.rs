//! Text files as they are stored: plain, or compressed by gzip (RFC 1952).

use std::fs::File;
use std::io::{BufReader, Read, Result, Seek};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Opens a text; what is compressed is known by its first bytes, whatever its name.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Read + Send>> {
    let mut file = File::open(path)?;
    let mut start = Vec::new();
    file.by_ref().take(GZIP.len() as u64).read_to_end(&mut start)?;
    file.rewind()?;
    if start == GZIP {
        return Ok(Box::new(MultiGzDecoder::new(BufReader::new(file))));
    }
    Ok(Box::new(file))
}

/// Returns whether a file is compressed by gzip.
pub(crate) fn is_compressed(start: &[u8]) -> bool {
    start.starts_with(&GZIP)
}
