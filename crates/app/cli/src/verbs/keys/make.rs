//! `tallycast keys new`, `add` and `renew`: files of keys and certificates.

use std::fs::DirBuilder;
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use keyring::{
    Change, create_authority, create_service, create_station, random_secret, read_authority, read_service,
    read_station,
};
use keys::service::{Member, Periods, ServiceAddress, ServiceFile};
use keys::{AuthorityFile, KeyFile, ServiceAt, StationKeys, Suite};
use sys::private_file::FileError;
use tallycast::{Bus, WallTime};
use units::text;

use super::{Files, draw, file_name, suite};
use crate::settings::Sources;

/// Keys are valid since this long before they are made: clocks of other stations may be behind.
const CLOCKS_BEHIND: Duration = Duration::from_secs(3_600);
/// The bus that is secured unless another is named.
const USUAL_BUS: &str = "udp://239.84.0.0:7400?shm=on";

#[derive(Args, Debug)]
pub(super) struct New {
    /// Folder of the files, made if need be
    #[arg(default_value = "keys", value_name = "FOLDER")]
    folder: PathBuf,
    /// Name of the laboratory
    #[arg(long, default_value = "lab", value_name = "NAME")]
    laboratory: String,
    /// Encryption of datagrams
    #[arg(long, default_value = Suite::default().name(), value_parser = suite())]
    suite: Suite,
    /// Give a key service the secrets, at this HOST:PORT; its file is made, too
    #[arg(long, value_name = "ADDRESS")]
    service: Option<ServiceAddress>,
    /// With --service: time for which stations send with a secret
    #[arg(long, default_value = "1h", value_name = "DURATION", value_parser = text::duration, requires = "service")]
    lifetime: Duration,
    /// With --service: time for which an old secret is accepted
    #[arg(long, default_value = "10s", value_name = "DURATION", value_parser = text::duration, requires = "service")]
    kept: Duration,
    #[command(flatten)]
    validity: Validity,
}

#[derive(Args, Debug)]
pub(super) struct Add {
    /// Name of the station, by default that of its host
    #[arg(value_name = "STATION")]
    station: String,
    /// File of the laboratory's authority
    #[arg(long, value_name = "FILE")]
    authority: PathBuf,
    /// File of another station: the new one is beside it, and has the same secrets
    #[arg(long, value_name = "FILE")]
    like: PathBuf,
    /// File of the key service [default: that of the laboratory, beside the file of --like]
    #[arg(long, value_name = "FILE")]
    service: Option<PathBuf>,
    #[command(flatten)]
    validity: Validity,
}

#[derive(Args, Debug)]
pub(super) struct Renew {
    #[command(flatten)]
    files: Files,
    /// File of the laboratory's authority
    #[arg(long, value_name = "FILE")]
    authority: PathBuf,
    #[command(flatten)]
    validity: Validity,
}

#[derive(Args, Clone, Copy, Debug)]
struct Validity {
    /// Validity of the certificate from now on
    #[arg(long, default_value = "365d", value_name = "DURATION", value_parser = text::duration)]
    valid: Duration,
}

impl Validity {
    fn at(self, now: WallTime) -> Range<WallTime> {
        since(now)..now.offset(nanos(self.valid))
    }
}

fn since(now: WallTime) -> WallTime {
    now.offset(-nanos(CLOCKS_BEHIND))
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Makes a laboratory's authority and its first station.
pub(super) fn new(new: &New, now: WallTime, sources: &Sources) -> anyhow::Result<()> {
    let settings = sources.load()?;
    let station = Some(settings.text("bus.station", None)?).filter(|name| !name.is_empty());
    let station = station.unwrap_or_else(tallycast::host_name);
    let authority_path = new.folder.join(file_name(&new.laboratory, "authority")?);
    let station_path = new.folder.join(file_name(&station, "keys")?);
    let authority = AuthorityFile::new(&new.laboratory, random_secret());
    let authority = authority.expect("a name of a file is a name of a laboratory");
    let keys =
        StationKeys::new(&authority, &station, [random_secret(), random_secret()], new.validity.at(now))?;
    let member = Member { name: station.clone(), exchange: keys.certificate().exchange };
    let service =
        new.service.as_ref().map(|address| service(new, &authority, address, member)).transpose()?;
    let file = match &service {
        Some((_, service)) => {
            let at = ServiceAt { address: service.address().clone(), exchange: service.public() };
            KeyFile::with_service(&authority, keys, at)?
        }
        None => KeyFile::new(&authority, keys, draw(new.suite, since(now), &[]))?,
    };
    let bus = secured(&settings.text("bus.address", None)?, &station_path)?;
    let folder = || format!("cannot make the folder {}", new.folder.display());
    DirBuilder::new().recursive(true).mode(0o700).create(&new.folder).with_context(folder)?;
    // A station without its authority, or the reverse, would be of no use.
    if std::fs::symlink_metadata(&station_path).is_ok() {
        return Err(FileError::Exists(station_path).into());
    }
    create_authority(&authority_path, &authority)?;
    if let Err(error) = create_station(&station_path, &file) {
        // Made a moment ago; an authority without stations is of no use.
        let _ = std::fs::remove_file(&authority_path);
        return Err(error.into());
    }
    if let Some((path, service)) = &service {
        if let Err(error) = create_service(path, service) {
            for made in [&authority_path, &station_path] {
                let _ = std::fs::remove_file(made);
            }
            return Err(error.into());
        }
        let path = path.display();
        writeln!(
            std::io::stdout(),
            "{path}: the state of the key service, on its host alone; start it there:\n  tallycast keys serve {path}\n"
        )?;
    }
    let (authority, station) = (authority_path.display(), station_path.display());
    Ok(writeln!(
        std::io::stdout(),
        "{authority}: certifies stations; keep it, and a copy, where no station is\n\
         {station}: secures this station\n\n\
         The bus of this station:\n  export TALLYCAST_BUS='{bus}'\n\
         Another station:\n  tallycast keys add NAME --authority {authority} --like {station}"
    )?)
}

/// Returns the file of a new key service with its first member, and its path.
fn service(
    new: &New,
    authority: &AuthorityFile,
    address: &ServiceAddress,
    member: Member,
) -> anyhow::Result<(PathBuf, ServiceFile)> {
    let periods = Periods::new(new.lifetime, new.kept)?;
    let mut file = ServiceFile::new(authority, address.clone(), random_secret(), (periods, new.suite));
    file.add(member)?;
    let path = new.folder.join(file_name(&new.laboratory, "service")?);
    if std::fs::symlink_metadata(&path).is_ok() {
        return Err(FileError::Exists(path).into());
    }
    Ok((path, file))
}

/// Returns a bus with this file of keys in place of another, without what a secured bus refuses: rings that every
/// user of the host may read.
fn secured(bus: &str, station: &Path) -> anyhow::Result<String> {
    let has_network = bus.parse::<Bus>()?.has_network();
    let bus = if has_network { bus } else { USUAL_BUS };
    let (address, options) = bus.split_once('?').unwrap_or((bus, ""));
    let stays =
        |option: &&str| !(option.is_empty() || option.starts_with("keys=") || *option == "access=all");
    let others = options.split('&').filter(stays);
    let path = std::path::absolute(station).context("cannot tell the folder of this process")?;
    let keys = format!("keys={}", path.display());
    if keys.contains('&') {
        bail!("a bus cannot name {}: a & ends an option\nname another folder", path.display());
    }
    if keys.contains('\'') {
        bail!("a shell cannot quote {} between '…': it has a '\nname another folder", path.display());
    }
    let options: Vec<&str> = others.chain([keys.as_str()]).collect();
    Ok(format!("{address}?{}", options.join("&")))
}

/// Makes the file of another station.
pub(super) fn add(add: &Add, now: WallTime, sources: &Sources) -> anyhow::Result<()> {
    let settings = sources.load()?;
    let name = file_name(&add.station, "keys")?;
    // A rotation meanwhile would leave the new station behind.
    let changed = [Some(&add.like), add.service.as_ref()];
    let _rotations_wait = Change::begin(changed.into_iter().flatten())?;
    let (authority, like) = (read_authority(&add.authority)?, read_station(&add.like)?);
    check_authority(&authority, &like, &add.like)?;
    let seeds = [random_secret(), random_secret()];
    let keys = StationKeys::new(&authority, &add.station, seeds, add.validity.at(now))?;
    let path = add.like.with_file_name(&name);
    // The path on the new station is up to its user; the rest of the bus is that of this station.
    let bus = secured(&settings.text("bus.address", None)?, Path::new(&format!("/PATH/{name}")))?;
    let member = Member { name: add.station.clone(), exchange: keys.certificate().exchange };
    create_station(&path, &like.for_station(keys)?)?;
    if like.service().is_some()
        && let Err(error) = enlist(add, &like, member)
    {
        // Made a moment ago; without a service that knows it, it is of no use.
        let _ = std::fs::remove_file(&path);
        return Err(error);
    }
    let (path, station) = (path.display(), &add.station);
    Ok(writeln!(
        std::io::stdout(),
        "{path}: secures the station {station}\n\
         Copy it there by a safe way, as scp, for the user who runs tallycast:\n  scp -p {path} {station}:\n\n\
         The bus of that station, with the folder of the copy for /PATH:\n  export TALLYCAST_BUS='{bus}'"
    )?)
}

/// Makes a station a member of the key service of another one.
fn enlist(add: &Add, like: &KeyFile, member: Member) -> anyhow::Result<()> {
    let beside = || Ok::<_, anyhow::Error>(add.like.with_file_name(file_name(like.laboratory(), "service")?));
    let path = add.service.clone().map_or_else(beside, Ok)?;
    // The folder is locked already, for rotations.
    let mut file = read_service(&path)?;
    if like.service().is_none_or(|at| at.exchange != file.public()) {
        bail!(
            "{} is another key service than the one that {} names\nname its file with --service",
            path.display(),
            add.like.display()
        );
    }
    file.add(member)?;
    Ok(sys::private_file::replace(&path, &file.to_text())?)
}

/// Gives stations new certificates.
pub(super) fn renew(renew: &Renew, now: WallTime) -> anyhow::Result<()> {
    let authority = read_authority(&renew.authority)?;
    let mut change = Change::begin(&renew.files.files)?;
    for path in &renew.files.files {
        let file = read_station(path)?;
        check_authority(&authority, &file, path)?;
        let keys = file.station().clone().certified(&authority, renew.validity.at(now));
        change.stage(path, &file.for_station(keys)?)?;
    }
    Ok(change.commit()?)
}

fn check_authority(authority: &AuthorityFile, file: &KeyFile, path: &Path) -> anyhow::Result<()> {
    if authority.authority().public() == file.authority() {
        return Ok(());
    }
    bail!(
        "{} belongs to another laboratory, `{}`\nname the authority's file of that one",
        path.display(),
        file.laboratory()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secured_bus_keeps_its_other_options() {
        let secured = |bus: &str| secured(bus, Path::new("/lab/daq-1.keys")).unwrap();
        assert_eq!(secured("udp://239.84.0.0"), "udp://239.84.0.0?keys=/lab/daq-1.keys");
        let other = "udp://239.85.0.0:7400?keys=/old.keys&shm=on";
        assert_eq!(secured(other), "udp://239.85.0.0:7400?shm=on&keys=/lab/daq-1.keys");
        let open = "udp://239.84.0.0?shm=on&access=all&ttl=2";
        assert_eq!(secured(open), "udp://239.84.0.0?shm=on&ttl=2&keys=/lab/daq-1.keys");
        let group = "udp://239.84.0.0?shm=on&access=group";
        assert_eq!(secured(group), format!("{group}&keys=/lab/daq-1.keys"));
        assert_eq!(secured("shm://lab"), "udp://239.84.0.0:7400?shm=on&keys=/lab/daq-1.keys");
    }

    #[test]
    fn a_folder_that_no_bus_or_no_shell_can_name_is_refused_with_the_reason() {
        for (folder, reason) in [("/a&b", "a & ends an option"), ("/a'b", "between '…': it has a '")] {
            let path = Path::new(folder).join("daq-1.keys");
            let refused = secured("udp://239.84.0.0", &path).unwrap_err().to_string();
            assert!(refused.contains(reason) && refused.contains("name another folder"), "{refused}");
        }
    }
}
