//! Simulated disk: unsynced data may be lost, torn or kept at a power cut, in any order.
//!
//! It can also run full, fail a sync, or lose its power at any numbered step.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use archive::{Appendable, Lock, Readable, Store, StoreError};
use units::Random;

#[derive(Clone, Default)]
pub(crate) struct Forgetful {
    disk: Arc<Mutex<Disk>>,
}

#[derive(Default)]
struct Disk {
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    /// Changes of names that no sync of their folder has confirmed.
    pending: Vec<(PathBuf, Change)>,
    locks: BTreeSet<PathBuf>,
    steps: u64,
    cut_at: Option<u64>,
    capacity: Option<u64>,
    failing_syncs: u32,
    no_new_files: bool,
}

#[derive(Default, Clone)]
struct Inode {
    live: Vec<u8>,
    durable: Vec<u8>,
    /// Offset of a byte that cannot be read, nor any other of its sector.
    bad: Option<usize>,
}

/// Size of a sector, which is read or refused as a whole. Units: bytes.
const SECTOR_BYTES: usize = 512;

#[derive(Clone)]
enum Change {
    Create(PathBuf, usize),
    Rename(PathBuf, PathBuf, usize),
    Remove(PathBuf),
}

impl Forgetful {
    /// Returns the number of steps so far that a power cut can interrupt.
    pub(crate) fn steps(&self) -> u64 {
        self.disk().steps
    }

    /// Cuts the power at a step: it and all later ones fail.
    pub(crate) fn cut_at(&self, step: u64) {
        self.disk().cut_at = Some(step);
    }

    pub(crate) fn is_off(&self) -> bool {
        let disk = self.disk();
        disk.cut_at.is_some_and(|cut| disk.steps >= cut)
    }

    /// Sets the capacity in bytes.
    pub(crate) fn set_capacity(&self, bytes: Option<u64>) {
        self.disk().capacity = bytes;
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.disk().used()
    }

    /// Makes the next syncs fail as on a broken disk: unsynced data may be lost.
    pub(crate) fn fail_syncs(&self, count: u32) {
        self.disk().failing_syncs = count;
    }

    /// Makes creating files fail, as on a disk without inodes: it still reports free space.
    pub(crate) fn refuse_new_files(&self, refuse: bool) {
        self.disk().no_new_files = refuse;
    }

    /// Ends the process that used the disk: nothing is lost but its locks.
    pub(crate) fn kill(&self) {
        self.disk().locks.clear();
    }

    /// Returns the state of the disk after a power cut.
    pub(crate) fn after_power_cut(&self, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let disk = self.disk();
        let mut names = disk.durable_names.clone();
        let mut stopped = BTreeSet::new();
        for (folder, change) in &disk.pending {
            // A folder's changes reach the disk in their order, but their number is random.
            if stopped.contains(folder) || random.chance(0.4) {
                stopped.insert(folder.clone());
                continue;
            }
            change.apply(&mut names);
        }
        let torn = |inode: &Inode| {
            let content = inode.torn(&mut random);
            Inode { durable: content.clone(), live: content, bad: inode.bad }
        };
        let inodes = disk.inodes.iter().map(torn).collect();
        let after = Disk { inodes, durable_names: names.clone(), names, ..Disk::default() };
        Self { disk: Arc::new(Mutex::new(after)) }
    }

    /// Changes a byte of a file, as a bad disk does.
    pub(crate) fn flip(&self, path: &Path, offset: usize) {
        let mut disk = self.disk();
        let inode = disk.names[path];
        disk.inodes[inode].live[offset] ^= 1;
        disk.inodes[inode].durable[offset] ^= 1;
    }

    /// Makes the sector of a file's byte unreadable.
    pub(crate) fn wear_out(&self, path: &Path, offset: usize) {
        let mut disk = self.disk();
        let inode = disk.names[path];
        disk.inodes[inode].bad = Some(offset);
    }

    /// Returns an independent disk with the same files, all of them durable.
    pub(crate) fn copy(&self) -> Self {
        let disk = self.disk();
        let names = disk.names.clone();
        let inodes = disk.inodes.clone();
        let copy = Disk { inodes, durable_names: names.clone(), names, ..Disk::default() };
        Self { disk: Arc::new(Mutex::new(copy)) }
    }

    /// Changes a file's content, as a person with an editor does.
    pub(crate) fn change(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut disk = self.disk();
        let inode = disk.names[path];
        change(&mut disk.inodes[inode].live);
        disk.inodes[inode].durable = disk.inodes[inode].live.clone();
    }

    /// Stores a file under a name, replacing anything there.
    pub(crate) fn put(&self, path: &Path, content: &[u8]) {
        let mut disk = self.disk();
        let inode = disk.inodes.len();
        disk.inodes.push(Inode { live: content.to_vec(), durable: content.to_vec(), bad: None });
        disk.names.insert(path.to_owned(), inode);
        disk.durable_names.insert(path.to_owned(), inode);
    }

    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.disk().names.keys().cloned().collect()
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap()
    }
}

impl Inode {
    fn torn(&self, random: &mut Random) -> Vec<u8> {
        let Self { live, durable, .. } = self;
        let common = live.iter().zip(durable).take_while(|(a, b)| a == b).count();
        match random.below(4) {
            0 => durable.clone(),
            1 => live.clone(),
            _ if live.len() < durable.len() => durable.clone(),
            // A prefix of the unsynced bytes.
            2 => live[..common + random.below((live.len() - common) as u64 + 1) as usize].to_vec(),
            // The size reached the disk, some pages did not.
            _ => {
                let mut content = live.clone();
                let start = common + random.below((live.len() - common) as u64 + 1) as usize;
                let end = start + random.below((live.len() - start) as u64 + 1) as usize;
                content[start..end].fill(0);
                content
            }
        }
    }
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            Self::Create(path, inode) => drop(names.insert(path.clone(), *inode)),
            Self::Rename(from, to, inode) => {
                names.remove(from);
                names.insert(to.clone(), *inode);
            }
            Self::Remove(path) => drop(names.remove(path)),
        }
    }
}

impl Disk {
    /// Counts a step; fails if the power is cut before or at it.
    fn step(&mut self, path: &Path) -> Result<(), StoreError> {
        if self.cut_at.is_some_and(|cut| self.steps >= cut) {
            return Err(no_power(path));
        }
        self.steps += 1;
        if self.cut_at == Some(self.steps) { Err(no_power(path)) } else { Ok(()) }
    }

    fn change(&mut self, path: &Path, change: Change) {
        change.apply(&mut self.names);
        self.pending.push((path.parent().unwrap().to_owned(), change));
    }

    fn used(&self) -> u64 {
        self.names.values().map(|&inode| self.inodes[inode].live.len() as u64).sum()
    }
}

fn no_power(path: &Path) -> StoreError {
    let cause = std::io::Error::other("the power is gone");
    StoreError::System { action: "use", path: path.to_owned(), cause }
}

struct Handle {
    disk: Forgetful,
    path: PathBuf,
    inode: usize,
}

impl Store for Forgetful {
    fn make_folder(&self, _: &Path) -> Result<(), StoreError> {
        Ok(())
    }

    fn create(&self, path: &Path) -> Result<Box<dyn Appendable>, StoreError> {
        let mut disk = self.disk();
        disk.step(path)?;
        if disk.names.contains_key(path) {
            return Err(StoreError::Exists(path.to_owned()));
        }
        if disk.no_new_files {
            return Err(StoreError::NoSpace(path.to_owned()));
        }
        let inode = disk.inodes.len();
        disk.inodes.push(Inode::default());
        disk.change(path, Change::Create(path.to_owned(), inode));
        Ok(Box::new(Handle { disk: self.clone(), path: path.to_owned(), inode }))
    }

    fn append_to(&self, path: &Path) -> Result<Box<dyn Appendable>, StoreError> {
        let disk = self.disk();
        let inode = *disk.names.get(path).ok_or_else(|| StoreError::NotFound(path.to_owned()))?;
        Ok(Box::new(Handle { disk: self.clone(), path: path.to_owned(), inode }))
    }

    fn open(&self, path: &Path) -> Result<Box<dyn Readable>, StoreError> {
        let disk = self.disk();
        let inode = *disk.names.get(path).ok_or_else(|| StoreError::NotFound(path.to_owned()))?;
        Ok(Box::new(Handle { disk: self.clone(), path: path.to_owned(), inode }))
    }

    fn sync_folder(&self, path: &Path) -> Result<(), StoreError> {
        let mut disk = self.disk();
        disk.step(path)?;
        let pending = std::mem::take(&mut disk.pending);
        for (folder, change) in pending {
            if path.starts_with(&folder) {
                change.apply(&mut disk.durable_names);
            } else {
                disk.pending.push((folder, change));
            }
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        let mut disk = self.disk();
        disk.step(from)?;
        let inode = *disk.names.get(from).ok_or_else(|| StoreError::NotFound(from.to_owned()))?;
        disk.change(to, Change::Rename(from.to_owned(), to.to_owned(), inode));
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<(), StoreError> {
        let mut disk = self.disk();
        if !disk.names.contains_key(path) {
            return Err(StoreError::NotFound(path.to_owned()));
        }
        disk.step(path)?;
        disk.change(path, Change::Remove(path.to_owned()));
        Ok(())
    }

    fn list(&self, path: &Path) -> Result<Vec<String>, StoreError> {
        let disk = self.disk();
        let inside = disk.names.keys().filter_map(|name| name.strip_prefix(path).ok());
        let first = inside.filter_map(|rest| rest.components().next());
        let names: BTreeSet<String> =
            first.map(|part| part.as_os_str().to_str().unwrap().to_owned()).collect();
        Ok(names.into_iter().collect())
    }

    fn space_bytes(&self) -> Result<u64, StoreError> {
        let disk = self.disk();
        Ok(disk.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(disk.used())))
    }

    fn capacity_bytes(&self) -> Result<u64, StoreError> {
        Ok(self.disk().capacity.unwrap_or(u64::MAX))
    }

    fn is_locked(&self, path: &Path) -> Result<bool, StoreError> {
        Ok(self.disk().locks.contains(path))
    }

    fn lock(&self, path: &Path) -> Result<Lock, StoreError> {
        if !self.disk().locks.insert(path.to_owned()) {
            return Err(StoreError::Busy(path.to_owned()));
        }
        Ok(Lock::new(Unlock { disk: self.clone(), path: path.to_owned() }))
    }
}

struct Unlock {
    disk: Forgetful,
    path: PathBuf,
}

impl Drop for Unlock {
    fn drop(&mut self) {
        self.disk.disk().locks.remove(&self.path);
    }
}

impl Appendable for Handle {
    fn append(&mut self, parts: &[&[u8]]) -> Result<(), StoreError> {
        let mut disk = self.disk.disk();
        let bytes = parts.concat();
        let room = disk.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(disk.used()));
        let off = disk.step(&self.path);
        // Part of a write may happen before the power cut, or before the space runs out.
        let fits = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        disk.inodes[self.inode].live.extend(&bytes[..fits]);
        off?;
        if fits < bytes.len() { Err(StoreError::NoSpace(self.path.clone())) } else { Ok(()) }
    }

    fn truncate(&mut self, size_bytes: u64) -> Result<(), StoreError> {
        let mut disk = self.disk.disk();
        disk.step(&self.path)?;
        let size = usize::try_from(size_bytes).unwrap();
        disk.inodes[self.inode].live.truncate(size);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        let mut disk = self.disk.disk();
        disk.step(&self.path)?;
        if disk.failing_syncs > 0 {
            disk.failing_syncs -= 1;
            // As Linux does: the pages count as clean afterwards, whether they were written or not.
            let inode = &mut disk.inodes[self.inode];
            let durable = inode.durable.len().min(inode.live.len());
            inode.live[durable..].fill(0);
            let cause = std::io::Error::other("input/output error");
            return Err(StoreError::System { action: "sync", path: self.path.clone(), cause });
        }
        let inode = &mut disk.inodes[self.inode];
        inode.durable = inode.live.clone();
        Ok(())
    }
}

impl Readable for Handle {
    fn size_bytes(&self) -> Result<u64, StoreError> {
        Ok(self.disk.disk().inodes[self.inode].live.len() as u64)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        let disk = self.disk.disk();
        let offset = usize::try_from(offset).unwrap();
        let Inode { live, bad, .. } = &disk.inodes[self.inode];
        let is_read = |bad: usize| {
            let sector = bad / SECTOR_BYTES * SECTOR_BYTES;
            sector < offset + buffer.len() && offset < sector + SECTOR_BYTES
        };
        if bad.is_some_and(is_read) {
            let cause = std::io::Error::from_raw_os_error(5); // EIO
            return Err(StoreError::Unreadable { path: self.path.clone(), cause });
        }
        let short = || StoreError::Short { path: self.path.clone(), needed: (offset + buffer.len()) as u64 };
        let bytes = live.get(offset..offset + buffer.len()).ok_or_else(short)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}
