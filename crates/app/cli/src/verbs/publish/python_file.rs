//! Files that Python's own packages read: HDF5, NetCDF, TDMS, MDF, MAT, miniSEED, WFDB, XDF, MCAP, EDF.
//!
//! A process of `tallycast.readers` plays each stream of the file; the frames between are those of [`source::Frames`].

use std::path::{Path, PathBuf};

use source::{Frames, FramesOptions, Opened, PYTHON_EXTENSIONS, Source, StartReader};
use tallycast::StreamName;

use crate::python::{Output, Python};

/// What of a file is to be played, and how.
pub(super) struct PythonFile<'a> {
    pub(super) path: &'a Path,
    /// The stream's name, or the beginning of the names of several.
    pub(super) name: StreamName,
    pub(super) options: FramesOptions,
    /// Time column or data set; `none`: no times.
    pub(super) time: Option<&'a str>,
    pub(super) columns: &'a [String],
}

/// Returns whether a file is one of Python's, by its extension.
pub(super) fn is_for_python(path: &Path) -> bool {
    let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
    ending.and_then(|ending| ending.to_str().map(|it| PYTHON_EXTENSIONS.contains(&it))).unwrap_or(false)
}

impl PythonFile<'_> {
    /// Opens every stream of the file: one under its name, several under `NAME/STREAM`.
    pub(super) fn open(&self) -> anyhow::Result<Vec<Box<dyn Source>>> {
        let python = Python::find("the readers of such files")?;
        match self.open_one(&python, None, &self.name)? {
            Opened::Stream(stream, left_out) => Ok(vec![told(stream, &left_out)]),
            Opened::Streams(streams) => {
                streams.iter().map(|stream| self.open_named(&python, stream)).collect()
            }
        }
    }

    fn open_named(&self, python: &Python, stream: &str) -> anyhow::Result<Box<dyn Source>> {
        let words: Vec<String> = stream.split('/').map(source::as_word).filter(|it| !it.is_empty()).collect();
        let name: StreamName = format!("{}/{}", self.name, words.join("/")).parse()?;
        match self.open_one(python, Some(stream), &name)? {
            Opened::Stream(stream, left_out) => Ok(told(stream, &left_out)),
            Opened::Streams(_) => unreachable!("a stream was chosen"),
        }
    }

    fn open_one(&self, python: &Python, stream: Option<&str>, name: &StreamName) -> anyhow::Result<Opened> {
        let mut reader = python.module("tallycast.readers");
        reader.args(self.arguments(stream));
        let start: StartReader = Box::new(move || Ok(Box::new(Output::of(&mut reader)?)));
        Ok(Frames::open(start, name, self.options).map_err(|error| source::in_file(self.path, error))?)
    }

    fn arguments(&self, stream: Option<&str>) -> Vec<PathBuf> {
        let option = |name: &str, value: &str| PathBuf::from(format!("--{name}={value}"));
        let stream = stream.map(|stream| option("stream", stream));
        let time = self.time.map(|time| option("time", time));
        let columns = self.columns.iter().map(|column| option("column", column));
        let options = stream.into_iter().chain(time).chain(columns);
        options.chain(["--".into(), self.path.to_owned()]).collect()
    }
}

fn told(stream: Box<Frames>, left_out: &[String]) -> Box<dyn Source> {
    if !left_out.is_empty() {
        eprintln!("left out, not being numbers: {}", left_out.join(", "));
    }
    stream
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extensions_are_those_of_the_package() {
        let package = include_str!("../../../../../../python/tallycast/readers/__init__.py");
        for extension in PYTHON_EXTENSIONS {
            assert!(package.contains(&format!("\".{extension}\": \"_")), "{extension}");
        }
        assert_eq!(package.matches("\": \"_").count(), PYTHON_EXTENSIONS.len());
        assert!(is_for_python(Path::new("a/Run.TDMS")) && !is_for_python(Path::new("a/run.csv")));
    }
}
