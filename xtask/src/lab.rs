//! `cargo xtask lab loss`: losses planted in network namespaces, and the doctor's report of them.

use crate::Verdict;
use crate::setup::{self, Need};
use crate::workspace::cargo;
use anyhow::{Context, bail};

/// Options of `cargo xtask lab`.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Plant every class of loss (or those named), and compare the missing datagrams with the report of `tallycast
    /// doctor watch`.
    Loss(Loss),
}

#[derive(clap::Args)]
struct Loss {
    /// `--json`, `--nobody`, `--checkpoints`, `--list`, or names of classes.
    #[arg(allow_hyphen_values = true, trailing_var_arg = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<Verdict> {
    let What::Loss(Loss { arguments }) = &options.what;
    let preparation = setup::prepare(&[Need::NetworkTools, Need::Nft]);
    if let Some(reason) = preparation.obstacle(&[Need::NetworkTools, Need::Nft]) {
        bail!("{reason}");
    }
    let mut build = cargo();
    build.args(["build", "--quiet", "--package", "tallycast-cli", "--package", "loss-lab"]);
    if !build.status().context("cannot start cargo")?.success() {
        bail!("the laboratory does not build");
    }
    let mut lab = cargo();
    lab.args(["run", "--quiet", "--package", "loss-lab", "--"]).args(arguments);
    let status = lab.status().context("cannot start cargo")?;
    match status.code() {
        Some(0) => Ok(Verdict::Fine),
        Some(1) => Ok(Verdict::FoundSomething),
        _ => bail!("the laboratory could not run ({status})"),
    }
}
