//! Versions of files: this program does nothing with a later version.
//!
//! A file of a later version is no damage. It is not read, set aside or rewritten, nor are the files next to it; the
//! error has the remedy. Files that had versions of their own before this module report them themselves
//! ([`IndexError::Version`] and the like). Start with [`check_folder`].
//!
//! [`IndexError::Version`]: crate::IndexError::Version

use std::path::Path;
use std::sync::Arc;

use crate::Description;
use crate::contents::EpochContents;
use crate::error::ArchiveError;
use crate::folders::{SegmentFile, earlier_account_of, refill_of, segment_of, segment_path};
use crate::index::{Header, IndexError};
use crate::parquet_file::ParquetSegment;
use crate::refill::read_note;
use crate::segment::Schema;
use crate::statements::Statements;
use crate::store::{Store, read_whole};
use crate::told::{Told, read_account};

/// Rejects the folder of an epoch with any file of a later version, before anything in it is changed.
///
/// # Errors
/// The error with the version; the error of the disk.
pub(crate) fn check_folder(
    store: &dyn Store,
    folder: &Path,
    description: &Arc<Description>,
) -> Result<(), ArchiveError> {
    let told = Told::of(store, folder, description)?;
    EpochContents::gap_map(store, folder, description, &told)?;
    Statements::read(store, folder, description)?;
    for name in store.list(folder)? {
        let path = folder.join(&name);
        let looked = match segment_of(&name) {
            Some((number, file)) => check_segment(store, folder, description, (number, file)),
            None if earlier_account_of(&name).is_some() => read_account(store, &path, description).map(drop),
            None => match refill_of(&name) {
                Some((_, None)) => read_note(store, &path, description).map(drop),
                Some((number, Some(file))) => check_segment(store, folder, description, (number, file)),
                None => Ok(()),
            },
        };
        // Damage is left to the recovery.
        looked.or_else(|error| if error.is_later_version() { Err(error) } else { Ok(()) })?;
    }
    Ok(())
}

fn check_segment(
    store: &dyn Store,
    folder: &Path,
    description: &Arc<Description>,
    (number, file): (u32, SegmentFile),
) -> Result<(), ArchiveError> {
    let path = segment_path(folder, number, file);
    let header = |path: &Path| -> Result<Header, ArchiveError> {
        let decoded = Header::decode(&read_whole(store, path)?);
        decoded.map_err(|cause: IndexError| ArchiveError::Index { path: path.to_owned(), cause })
    };
    match file {
        SegmentFile::Index => header(&path).map(drop),
        SegmentFile::Parquet => ParquetSegment::open(store, &path).map(drop),
        SegmentFile::Arrow => {
            let written = header(&segment_path(folder, number, SegmentFile::Index)).ok();
            let written = written.map(|header| header.schema_crc);
            Schema::of(&path, &*store.open(&path)?, description, written).map(drop)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use sample::{Block, Channel, Dtype, SampleBuffer, Schema as SampleSchema};
    use serde_json::{Value, json};
    use tallycast::{Event, StreamInfo};
    use units::{Epoch, Instant, RangeSet, SampleRate, StreamId, WallTime};

    use super::*;
    use crate::catalogue::Archive;
    use crate::checksum::crc32c;
    use crate::columns::arrow_schema;
    use crate::compact::compact;
    use crate::folders::{
        ACCOUNT, ClosedSegment, DESCRIPTION, GAPS, LOCK, RunName, earlier_account, epoch_folder,
    };
    use crate::gaps::Line;
    use crate::index::layout::header;
    use crate::parquet_file::{ParquetWriter, SegmentSpan, WriteTo};
    use crate::recorder::{Options, Recorder};
    use crate::seal::Sealing;
    use crate::stamped::{self, stamp};
    use crate::store::{FileStore, draft_of};
    use crate::verify::Scope;
    use crate::version::VERSION_KEY;
    use crate::wanted::Wanted;

    const LATER: u64 = 9;

    fn description() -> Arc<Description> {
        let channels = vec![Channel::new("u", "V").with_scale(0.5, 0.25)];
        let schema = SampleSchema::new(Dtype::I32, SampleRate::hz(1_000).unwrap(), channels).unwrap();
        Arc::new(Description {
            name: Arc::new("lab/probe".parse().unwrap()),
            epoch: Epoch { start_ns: 1_763_756_051_000_000_000, incarnation: 7 },
            schema: Arc::new(schema),
            station: "daq-3".into(),
        })
    }

    fn run() -> RunName {
        "shot-7".parse().unwrap()
    }

    /// Archive with files of every kind: two recorders wrote it, and a segment is Parquet.
    struct Scene {
        root: tempfile::TempDir,
        store: Arc<dyn Store>,
        epoch: PathBuf,
    }

    impl Scene {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let store: Arc<dyn Store> = Arc::new(FileStore::open(root.path()).unwrap());
            let description = description();
            let epoch = epoch_folder(&run(), &description.name, description.epoch);
            let scene = Self { root, store, epoch };
            scene.record(0);
            scene.record(200);
            let first = ClosedSegment { folder: scene.epoch.clone(), number: 1 };
            compact(&*scene.store, &first).unwrap().unwrap();
            scene
        }

        fn record(&self, first: u64) {
            let now = Instant::ORIGIN;
            let options = Options { segment_bytes: 2_000, batch_bytes: 100, ..Options::default() };
            let mut recorder = Recorder::open(Arc::clone(&self.store), run(), options, now).unwrap();
            let Description { name, epoch, schema, station } = (*description()).clone();
            let info = StreamInfo {
                name: Arc::clone(&name),
                id: StreamId(1),
                epoch,
                origin: None,
                schema: Arc::clone(&schema),
                station,
                first_index: first,
                join: 1,
            };
            recorder.handle(now, &Event::Began(Arc::new(info))).unwrap();
            for first_index in (first..first + 200).step_by(20) {
                let block = Block {
                    stream: Arc::clone(&name),
                    schema: Arc::clone(&schema),
                    epoch,
                    first_index,
                    t0: WallTime::from_nanos(first_index as i64 * 1_000_000),
                    samples: 20,
                    data: SampleBuffer::zeroed(80),
                    missing: RangeSet::new(),
                };
                recorder.handle(now, &Event::Block(block)).unwrap();
                recorder.tick(recorder.deadline());
            }
            recorder.close(now).unwrap();
        }

        fn change(&self, name: &Path, change: impl FnOnce(Vec<u8>) -> Vec<u8>) {
            let path = self.root.path().join(name);
            std::fs::write(&path, change(std::fs::read(&path).unwrap())).unwrap();
        }

        /// Gives a JSON file a later version.
        fn change_json(&self, name: &Path) {
            self.change(name, |bytes| {
                let mut value = stamped::read(&bytes).unwrap();
                value["version"] = LATER.into();
                stamp(&value).into_bytes()
            });
        }

        fn change_gaps(&self) {
            self.change(&self.epoch.join(GAPS), |bytes| {
                let text = String::from_utf8(bytes).unwrap();
                let head = Line::head_of(&description()).encode();
                let content = head.rsplit_once(",\"crc32c\"").unwrap().0;
                let content = content.replace("\"version\":1", &format!("\"version\":{LATER}"));
                let crc = crc32c([content.as_bytes()]);
                text.replace(&head, &format!("{content},\"crc32c\":\"{crc:08x}\"}}\n")).into_bytes()
            });
        }

        fn segment(&self, number: u32, file: SegmentFile) -> PathBuf {
            segment_path(&self.epoch, number, file)
        }

        /// Changes the header of the second segment's index, and its checksum.
        fn change_index(&self, change: impl FnOnce(&mut [u8])) {
            self.change(&self.segment(2, SegmentFile::Index), |mut bytes| {
                change(&mut bytes);
                let crc = crc32c([&bytes[..header::HEADER_CRC.start]]);
                bytes[header::HEADER_CRC].copy_from_slice(&crc.to_le_bytes());
                bytes
            });
        }

        /// Changes the version in the schema message of the second segment. Returns that message's checksum.
        fn change_arrow(&self) -> u32 {
            let path = self.segment(2, SegmentFile::Arrow);
            let index = std::fs::read(self.root.path().join(self.segment(2, SegmentFile::Index))).unwrap();
            let schema_bytes = Header::decode(&index).unwrap().schema_bytes as usize;
            let mut crc = 0;
            self.change(&path, |mut bytes| {
                let value = [1, 0, 0, 0, b'1', 0];
                let places: Vec<usize> =
                    (0..schema_bytes - 6).filter(|&at| bytes[at..at + 6] == value).collect();
                let [place] = places[..] else { panic!("it has one text `1`: {places:?}") };
                bytes[place + 4] = b'0' + LATER as u8;
                crc = crc32c([&bytes[..schema_bytes]]);
                bytes
            });
            crc
        }

        /// Rewrites the first segment with another version: in the schema, or in our own part of the footer.
        fn change_parquet(&self, in_schema: bool) {
            let path = self.segment(1, SegmentFile::Parquet);
            let found = ParquetSegment::open(&*self.store, &path).unwrap();
            let schema = (*arrow_schema(&description())).clone();
            let mut metadata = schema.metadata().clone();
            if in_schema {
                metadata.insert(VERSION_KEY.to_owned(), LATER.to_string());
            }
            let schema = Arc::new(schema.with_metadata(metadata));
            let draft = draft_of(&path);
            let target = Sealing::new(WriteTo(self.store.create(&draft).unwrap()));
            let mut writer = ParquetWriter::new(target, &schema).unwrap();
            if !in_schema {
                writer.note("tallycast.segment", json!({"version": LATER, "segment": 1}).to_string());
            }
            for group in found.groups(&Wanted::ALL) {
                for batch in found.batches(group, 4).unwrap() {
                    writer.write(&batch.unwrap().with_schema(Arc::clone(&schema)).unwrap()).unwrap();
                }
            }
            let (t0, t1) = (WallTime::default(), WallTime::default());
            let span =
                SegmentSpan { first_index: 0, next_index: found.span().next_index, t0, t1, samples: 1 };
            writer.seal(1, span).unwrap();
            self.store.rename(&draft, &path).unwrap();
        }

        /// Returns every file with its content, except the lock.
        fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
            let mut files = BTreeMap::new();
            let mut folders = vec![self.root.path().to_owned()];
            while let Some(folder) = folders.pop() {
                for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                    if entry.is_dir() {
                        folders.push(entry);
                    } else if !entry.ends_with(LOCK) {
                        files.insert(entry.clone(), std::fs::read(entry).unwrap());
                    }
                }
            }
            files
        }
    }

    fn check_refused(scene: &Scene, kind: &str) {
        let before = scene.files();
        let refused = |said: &str| {
            let is_clear =
                said.contains(&format!("version {LATER}")) && said.contains("use a newer tallycast");
            assert!(is_clear, "{kind}: {said}");
        };
        match Archive::open(scene.root.path()) {
            Err(error) => refused(&error.to_string()),
            Ok(archive) => {
                assert_ne!(kind, "mark");
                let (streams, unreadable) = archive.survey(&run()).unwrap();
                assert!(streams.is_empty(), "{kind}");
                refused(&unreadable[0].cause.to_string());
                refused(&archive.stream(&run(), &description().name).unwrap_err().to_string());
                let found = archive.verify(&Scope::default(), &mut |_| {}).unwrap();
                assert_eq!(found.contradictions.len(), 1, "{kind}: {found:?}");
                refused(&found.contradictions[0].what);
            }
        }
        let opened =
            Recorder::open(Arc::clone(&scene.store), run(), Options::default(), Instant::ORIGIN).map(drop);
        refused(&opened.unwrap_err().to_string());
        assert!(scene.files() == before, "{kind}: nothing is set aside, removed or written");
    }

    #[test]
    fn a_later_version_of_any_file_is_refused_everywhere_and_nothing_is_changed() {
        let with = |kind: &str, change: &dyn Fn(&Scene)| {
            let scene = Scene::new();
            let found = Archive::open(scene.root.path()).unwrap();
            assert!(found.verify(&Scope::default(), &mut |_| {}).unwrap().is_whole());
            change(&scene);
            // A damaged file next to it is not repaired either.
            for damages_another in [false, true] {
                if damages_another {
                    let other = if kind == "account" { DESCRIPTION } else { ACCOUNT };
                    scene.change(&scene.epoch.join(other), |_| b"damaged".to_vec());
                }
                check_refused(&scene, kind);
            }
        };
        with("mark", &|scene| scene.change_json(Path::new(crate::catalogue::ROOT_MARK)));
        with("description", &|scene| scene.change_json(&scene.epoch.join(DESCRIPTION)));
        with("account", &|scene| scene.change_json(&scene.epoch.join(ACCOUNT)));
        with("earlier account", &|scene| scene.change_json(&scene.epoch.join(earlier_account(1))));
        with("gap map", &Scene::change_gaps);
        with("index", &|scene| {
            scene.change_index(|bytes| bytes[header::VERSION].copy_from_slice(&(LATER as u32).to_le_bytes()));
        });
        with("segment", &|scene| {
            let crc = scene.change_arrow();
            scene.change_index(|bytes| bytes[header::SCHEMA_CRC].copy_from_slice(&crc.to_le_bytes()));
        });
        with("parquet", &|scene| scene.change_parquet(true));
        with("parquet's own part", &|scene| scene.change_parquet(false));
    }

    #[test]
    fn segments_of_a_later_version_are_refused_without_their_description_or_index() {
        for lost in [DESCRIPTION, "segment-000002.index"] {
            let scene = Scene::new();
            // Every segment has that version, as a later program leaves them.
            scene.change_arrow();
            for (number, file) in
                scene.store.list(&scene.epoch).unwrap().iter().filter_map(|name| segment_of(name))
            {
                if number != 2 {
                    scene.store.remove(&scene.segment(number, file)).unwrap();
                }
            }
            scene.store.remove(&scene.epoch.join(lost)).unwrap();
            check_refused(&scene, lost);
        }
    }

    #[test]
    fn a_flipped_bit_in_a_version_is_damage_and_no_later_version() {
        let scene = Scene::new();
        // Its index has another checksum of the schema.
        scene.change_arrow();
        let archive = Archive::open(scene.root.path()).unwrap();
        let entry = archive.stream(&run(), &description().name).unwrap();
        assert_eq!(entry.epochs[0].samples, 400);
        assert!(entry.epochs[0].damaged[0].contains("its schema message is damaged"));
        for name in [DESCRIPTION, ACCOUNT] {
            scene.change(&scene.epoch.join(name), |bytes| {
                let text = String::from_utf8(bytes).unwrap();
                text.replace("\"version\": 1", "\"version\": 9").into_bytes()
            });
        }
        let archive = Archive::open(scene.root.path()).unwrap();
        let entry = archive.stream(&run(), &description().name).unwrap();
        assert_eq!(entry.epochs[0].account, Value::Null);
        assert_eq!(entry.epochs[0].samples, 400);
    }
}
