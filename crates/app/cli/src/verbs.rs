//! The verbs, one file each: arguments and wiring.

mod access;
mod agent;
mod apps;
mod archive;
mod bridge;
mod config;
mod demo;
mod doctor;
mod during;
mod graph;
mod heated_plate;
#[cfg(feature = "instruments")]
pub(crate) mod instruments;
mod keys;
mod list;
mod monitor;
mod publish;
mod query;
mod record;
mod recv;
mod relay;
mod reliable;
mod replay;
mod run;
mod send;
mod server;
mod steer;
mod steered;
mod subscribe;
mod top;
mod unjoined;

use clap::Subcommand;

use crate::Outcome;
use crate::settings::Sources;

/// The verbs.
#[derive(Subcommand, Debug)]
#[expect(clippy::large_enum_variant, reason = "one value, made once when the program starts")]
pub(crate) enum Verb {
    /// Run a complete demonstration on this machine: recorded signals, multicast, monitor page, archive
    #[command(after_help = demo::EXAMPLES)]
    Demo(demo::Arguments),
    /// Publish a stream from a file, a recorded signal, this host, standard input or a test waveform
    #[command(after_help = publish::EXAMPLES, override_usage = publish::USAGE)]
    Pub(publish::Arguments),
    /// Read streams: values, gaps with their reasons, and the final account
    #[command(after_help = subscribe::EXAMPLES)]
    Sub(subscribe::Arguments),
    /// List the available streams, and the transport each would use
    #[command(after_help = list::EXAMPLES)]
    Ls(list::Arguments),
    /// Watch streams live: transport, rate, and losses by stage
    #[command(after_help = top::EXAMPLES)]
    Top(top::Arguments),
    /// Receive streams once for all readers of this host, and pass them on through shared memory
    #[command(after_help = agent::EXAMPLES)]
    Agent(agent::Arguments),
    /// List the cyclic apps: their state, and which app feeds which
    #[command(after_help = apps::EXAMPLES)]
    Apps(apps::Arguments),
    /// Read, change and watch the parameters of running apps, and read the log of all commands
    #[command(after_help = steer::EXAMPLES)]
    Steer(steer::Arguments),
    /// Serve the web page and the API: live plots, accounts, history, derived streams
    #[command(after_help = monitor::EXAMPLES)]
    Monitor(monitor::Arguments),
    /// Check, show, replace and take back the processing graph of a monitor server
    #[command(after_help = graph::EXAMPLES)]
    Graph(graph::Arguments),
    /// Simulate a heated plate that can be steered: the source of `demo --coupled`
    #[command(hide = true)]
    HeatedPlate(heated_plate::Arguments),
    /// Record streams into an archive, with their gaps and accounts
    #[command(after_help = record::EXAMPLES)]
    Record(record::Arguments),
    /// Start and stop runs of the experiment, such as shots or programs, and list them
    #[command(after_help = run::EXAMPLES)]
    Run(run::Arguments),
    /// List, downsample and export the contents of an archive
    #[command(after_help = query::EXAMPLES)]
    Query(query::Arguments),
    /// Verify an archive
    #[command(after_help = archive::EXAMPLES)]
    Archive(archive::Arguments),
    /// Publish a recording again, with its gaps
    #[command(after_help = replay::EXAMPLES)]
    Replay(replay::Arguments),
    /// Send files and directories to a distant host: resumable, verified, with a choice of congestion control
    #[command(after_help = send::EXAMPLES)]
    Send(send::Arguments),
    /// Receive files sent by `tallycast send`, or any UDT 4 stream
    #[command(after_help = recv::EXAMPLES)]
    Recv(recv::Arguments),
    /// Carry live streams to a distant bus within a deadline, with an account over every hop
    #[command(after_help = relay::EXAMPLES)]
    Relay(relay::Arguments),
    /// Connect to existing systems, in both directions: EPICS, MQTT, growing files, any program
    #[command(after_help = bridge::EXAMPLES)]
    Bridge(bridge::Arguments),
    /// Find where datagrams are lost on this host, and fix it
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::Arguments),
    #[cfg(feature = "instruments")]
    #[command(flatten)]
    Instruments(instruments::Verb),
    /// Say who may read, publish, derive, steer and administer: users, tokens, rules
    #[command(after_help = access::EXAMPLES)]
    Access(access::Arguments),
    /// Secure the streams of a laboratory: keys of its stations, rotation
    #[command(after_help = keys::EXAMPLES)]
    Keys(keys::Arguments),
    /// Check a settings file, or show every setting and its origin
    #[command(after_help = config::EXAMPLES)]
    Config(config::Arguments),
}

impl Verb {
    /// Does it.
    pub(crate) fn run(self, sources: &Sources) -> anyhow::Result<Outcome> {
        match self {
            Self::Pub(arguments) => publish::run(arguments, sources),
            Self::Sub(arguments) => subscribe::run(arguments, sources),
            Self::Ls(arguments) => list::run(&arguments, sources),
            Self::Top(arguments) => top::run(&arguments, sources),
            Self::Agent(arguments) => agent::run(&arguments, sources),
            Self::Apps(arguments) => apps::run(&arguments, sources),
            Self::Steer(arguments) => steer::run(arguments, sources),
            Self::Demo(arguments) => demo::run(arguments, sources),
            Self::Monitor(arguments) => monitor::run(arguments, sources),
            Self::Graph(arguments) => graph::run(&arguments, sources),
            Self::HeatedPlate(arguments) => heated_plate::run(&arguments, sources),
            Self::Record(arguments) => record::run(arguments, sources),
            Self::Run(arguments) => run::run(&arguments, sources),
            Self::Query(arguments) => query::run(arguments, sources),
            Self::Archive(arguments) => archive::run(&arguments, sources),
            Self::Replay(arguments) => replay::run(arguments, sources),
            Self::Send(arguments) => send::run(&arguments),
            Self::Recv(arguments) => recv::run(&arguments),
            Self::Relay(arguments) => relay::run(&arguments, sources),
            Self::Bridge(arguments) => bridge::run(&arguments, sources),
            Self::Doctor(arguments) => doctor::run(arguments, sources),
            #[cfg(feature = "instruments")]
            Self::Instruments(verb) => verb.run(),
            Self::Access(arguments) => access::run(arguments, sources),
            Self::Keys(arguments) => keys::run(arguments, sources),
            Self::Config(arguments) => config::run(arguments, sources),
        }
    }
}
