//! `tallycast keys peers`: stations that may connect to each other.

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, bail};
use clap::Args;
use keyring::{Change, read_station};
use keys::Peer;

use super::Files;

#[derive(Args, Debug)]
pub(super) struct Peers {
    #[command(flatten)]
    files: Files,
    /// Station that is accepted no longer, such as a lost one; may be given several times
    #[arg(long, value_name = "STATION")]
    remove: Vec<String>,
}

/// Lists in each file the stations of the others, for `send`, `recv` and `bench`; a station by the same name is replaced,
/// and one that is to be removed is listed nowhere.
pub(super) fn peers(peers: &Peers) -> anyhow::Result<()> {
    let paths = &peers.files.files;
    let mut change = Change::begin(paths)?;
    let files =
        paths.iter().map(|path| Ok((path, read_station(path)?))).collect::<anyhow::Result<Vec<_>>>()?;
    let stations: BTreeMap<String, Peer> = files
        .iter()
        .map(|(_, file)| {
            let certificate = file.station().certificate();
            let peer = Peer { name: certificate.name.clone(), exchange: certificate.exchange };
            (certificate.name.clone(), peer)
        })
        .collect();
    for name in &peers.remove {
        if stations.contains_key(name) {
            bail!(
                "the file of station `{name}` is among those given\nmove the file of a removed station out of the folder"
            );
        }
        if !files.iter().any(|(_, file)| file.peers().iter().any(|peer| peer.name == *name)) {
            bail!(
                "none of these files lists a station `{name}`\nsee whom they list: tallycast keys show FILE"
            );
        }
    }
    for (path, file) in files {
        let mut file = file;
        let own = file.station().certificate().name.clone();
        peers.remove.iter().for_each(|name| file.unlist_peer(name));
        for peer in stations.values().filter(|peer| peer.name != own) {
            file.list_peer(peer.clone());
        }
        let listed = file.peers().len();
        change.stage(path, &file).with_context(|| path.display().to_string())?;
        writeln!(std::io::stdout(), "{}: {own} accepts {listed}", path.display())?;
    }
    Ok(change.commit()?)
}
