//! `tallycast graph`: the processing graph of a monitor server checked, shown, replaced, and taken back.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};
use monitor::check_graph;
use monitor::plan::{Difference, Node};
use sample::StreamName;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toml::Table;

use crate::Outcome;
use crate::messages::print_line;
use crate::settings::{Sources, nodes, operators};
use crate::verbs::server::{Problems, Server};

pub(crate) const EXAMPLES: &str = "\
Examples:
  tallycast graph check graph.toml                 its nodes alone: names, settings, circles
  tallycast graph check graph.toml --server http://127.0.0.1:7480
  tallycast graph apply graph.toml                 replace the graph of the monitor server of this host
  tallycast graph show                             the nodes that run, with their samples and errors
  tallycast graph undo                             return to the graph before

A graph file has one [[node]] for each stream that is computed:
  [[node]]
  name = \"lab/rod/slow\"
  kind = \"thin\"
  input = \"lab/rod\"
  every = \"100ms\"

A monitor server checks the whole graph before it changes anything. Nodes that stay as they are lose no sample and keep their epoch.
A monitor server that is restarted runs the graph that was applied last.
Exit codes: 0 done, 1 the graph has problems, 2 could not run.";

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Check a graph file: alone, or with --server against the streams that a monitor server knows
    Check {
        /// File with [[node]] tables
        file: PathBuf,
        /// Monitor server whose streams and graph it is checked against
        #[arg(long, value_name = "URL")]
        server: Option<String>,
        #[command(flatten)]
        access: Access,
    },
    /// Replace the graph of a monitor server by that of a file
    Apply {
        /// File with [[node]] tables
        file: PathBuf,
        #[command(flatten)]
        at: At,
    },
    /// Show the graph of a monitor server
    Show {
        #[command(flatten)]
        at: At,
    },
    /// Return to the graph before the last change
    Undo {
        #[command(flatten)]
        at: At,
    },
}

/// A monitor server.
#[derive(Args, Debug)]
struct At {
    /// Monitor server
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:7480")]
    server: String,
    #[command(flatten)]
    access: Access,
}

/// How this program is let in.
#[derive(Args, Debug)]
struct Access {
    /// File with an access token
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
    /// Certificate of the authority that signs the server's, as the server names it when it starts
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Print JSON
    #[arg(long, short = 'J')]
    json: bool,
}

/// What happened to a graph by a change that was made.
const CHANGED: &str = "changed";

/// What a change does, as the server answers.
#[derive(Deserialize)]
struct Applied {
    revision: u64,
    #[serde(flatten)]
    difference: Difference,
    values_per_s: f64,
    lasting: bool,
}

pub(crate) fn run(arguments: &Arguments, sources: &Sources) -> anyhow::Result<Outcome> {
    match &arguments.what {
        What::Check { file, server: None, access } => check_alone(file, access, sources),
        What::Check { file, server: Some(server), access } => {
            let server = access.server(server)?;
            let answer = server.post("/api/graph/check", None, &body(&read(file)?));
            checked(answer, "would change", access)
        }
        What::Apply { file, at } => {
            let (server, body) = (at.access.server(&at.server)?, body(&read(file)?));
            let revision = server.get("/api/graph")?["revision"].to_string();
            checked(server.put("/api/graph", Some(&revision), &body), CHANGED, &at.access)
        }
        What::Undo { at } => {
            let server = at.access.server(&at.server)?;
            let revision = server.get("/api/graph")?["revision"].to_string();
            change(server.post("/api/graph/undo", Some(&revision), &json!({}))?, CHANGED, &at.access)
        }
        What::Show { at } => show(&at.access.server(&at.server)?.get("/api/graph")?, at.access.json),
    }
}

fn check_alone(file: &Path, access: &Access, sources: &Sources) -> anyhow::Result<Outcome> {
    let nodes = read(file)?;
    let operators = operators(&sources.load()?.value("monitor.operator", None)?.0)?;
    let checked = check_graph(&nodes, &operators);
    if access.json {
        let problems = checked.as_ref().err().map(ToString::to_string);
        print_line(&json!({"nodes": nodes.len(), "problems": problems}))?;
    }
    if let Err(problems) = checked {
        if !access.json {
            eprintln!("{problems}");
        }
        return Ok(Outcome::Found);
    }
    if !access.json {
        println!("{}: no problem found", units::text::counted(nodes.len(), "node"));
        println!("units, channels and rates are checked by a monitor server: --server URL");
    }
    Ok(Outcome::Fine)
}

/// Shows what a graph that was sent changes, or its problems.
fn checked(answer: anyhow::Result<Value>, verb: &str, access: &Access) -> anyhow::Result<Outcome> {
    match answer {
        Ok(answer) => change(answer, verb, access),
        Err(error) if error.is::<Problems>() => {
            eprintln!("{error}");
            Ok(Outcome::Found)
        }
        Err(error) => Err(error),
    }
}

fn change(answer: Value, verb: &str, access: &Access) -> anyhow::Result<Outcome> {
    if access.json {
        print_line(&answer)?;
        return Ok(Outcome::Fine);
    }
    let Applied { revision, difference, values_per_s, lasting } =
        serde_json::from_value(answer).context("the server's answer")?;
    if difference.is_empty() {
        println!("nothing {verb}: the graph has these nodes, at revision {revision}");
        return Ok(Outcome::Fine);
    }
    for (words, names) in [
        ("begin", &difference.added),
        ("begin anew", &difference.changed),
        ("end", &difference.removed),
        ("continue", &difference.kept),
    ] {
        if !names.is_empty() {
            let names: Vec<&str> = names.iter().map(StreamName::as_str).collect();
            println!("{words:<10}  {}", names.join(", "));
        }
    }
    println!("revision {revision}; the nodes read {} values per second", units::text::grouped(values_per_s));
    if verb == CHANGED && !lasting {
        eprintln!("this graph lasts until the monitor server ends: tallycast graph show tells why");
    }
    Ok(Outcome::Fine)
}

fn show(graph: &Value, as_json: bool) -> anyhow::Result<Outcome> {
    if as_json {
        print_line(graph)?;
        return Ok(Outcome::Fine);
    }
    let nodes = graph["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    println!("# revision {}, {} to undo", graph["revision"], graph["undo"]);
    print!("{}", origin_text(&graph["origin"]));
    for node in nodes {
        print!("\n{}", node_text(node)?);
    }
    Ok(Outcome::Fine)
}

/// Tells where a graph comes from, and whether it is kept.
fn origin_text(origin: &Value) -> String {
    let of = |key: &str| origin[key].as_str();
    let mut text = match (of("from"), of("file")) {
        (Some("file"), Some(file)) => format!("# from {file}, by --graph\n"),
        (Some("file"), None) => "# from the file of --graph\n".to_owned(),
        (Some("kept"), _) => "# applied before the monitor server was restarted\n".to_owned(),
        (Some("applied"), _) => "# applied since the monitor server was started\n".to_owned(),
        _ => "# from the settings\n".to_owned(),
    };
    if let Some(kept) = of("kept") {
        text += &format!("# the graph that is applied last is kept in {kept}\n");
    }
    for line in of("problem").into_iter().flat_map(str::lines) {
        text += &format!("# {line}\n");
    }
    text
}

/// Returns a node as a file has it; what it did so far is a comment.
fn node_text(node: &Value) -> anyhow::Result<String> {
    let mut settings = node.as_object().cloned().unwrap_or_default();
    let [offered, source, late, absent, error, process] =
        ["offered_samples", "source_samples", "late_samples", "absent", "error", "process"]
            .map(|name| settings.remove(name).unwrap_or_default());
    let settings: Map<String, Value> = settings.into_iter().filter(|(_, value)| !value.is_null()).collect();
    let mut text = format!("# {offered} samples, {source} of them in holes of its inputs\n");
    if let Some(late @ 1..) = late.as_u64() {
        writeln!(text, "# {late} samples of its inputs came behind their horizon, and were left out")?;
    }
    for input in absent.as_array().into_iter().flatten().filter_map(Value::as_str) {
        writeln!(text, "# {input} is absent: neither samples nor tallies come")?;
    }
    if let Some(error) = error.as_str() {
        for line in error.lines() {
            writeln!(text, "# {line}")?;
        }
    }
    if let Some(process) = process.as_object() {
        let state = process["state"].as_str().unwrap_or_default();
        match process["pid"].as_u64() {
            Some(pid) => writeln!(text, "# process {pid}: {state}, started {} times", process["starts"])?,
            None => writeln!(text, "# {state}, started {} times", process["starts"])?,
        }
    }
    let table = Table::try_from(settings).context("a node")?;
    let document = Table::from_iter([("node".to_owned(), toml::Value::Array(vec![table.into()]))]);
    Ok(text + &toml::to_string(&document)?)
}

/// Reads a graph file, or a graph that a monitor server kept.
pub(super) fn read(file: &Path) -> anyhow::Result<Vec<Node>> {
    let named = || file.display().to_string();
    let text = std::fs::read_to_string(file).with_context(named)?;
    let extension = file.extension().map(|extension| extension.to_string_lossy());
    let is_kept = extension.is_some_and(|extension| extension == "json" || extension.starts_with("aside-"));
    let table: Table = if is_kept {
        let mut table: Table = serde_json::from_str(&text).with_context(named)?;
        table.remove("revision");
        table
    } else {
        text.parse().with_context(named)?
    };
    if let Some(unknown) = table.keys().find(|key| *key != "node") {
        anyhow::bail!("{}: unknown key `{unknown}`; a graph has [[node]] tables alone", file.display());
    }
    let none = toml::Value::Array(Vec::new());
    nodes(table.get("node").unwrap_or(&none)).with_context(named)
}

fn body(nodes: &[Node]) -> Value {
    json!({ "node": nodes })
}

impl Access {
    fn server(&self, url: &str) -> anyhow::Result<Server> {
        Server::new(url, self.token.as_deref(), self.ca.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_node_is_one_that_a_file_can_have() {
        let node = json!({
            "name": "lab/slow", "kind": "thin", "input": "lab/x", "every": "100ms",
            "offered_samples": 12, "source_samples": 2, "late_samples": 3, "absent": ["lab/x"], "error": "no channel\ntry another",
        });
        let text = node_text(&node).unwrap();
        let comments = "# 12 samples, 2 of them in holes of its inputs\n\
                        # 3 samples of its inputs came behind their horizon, and were left out\n\
                        # lab/x is absent: neither samples nor tallies come\n# no channel\n# try another\n";
        assert!(text.starts_with(comments), "{text}");
        let table: Table = text.parse().unwrap();
        let read = nodes(&table["node"]).unwrap();
        assert_eq!(
            json!(read),
            json!([{"name": "lab/slow", "kind": "thin", "input": "lab/x", "every": "100ms"}])
        );
    }

    #[test]
    fn every_kind_is_read_as_the_guide_writes_it() {
        let settings = [
            "kind = 'select'\nchannels = ['a', 'b']",
            "kind = 'calibrate'\nchannels = { a = { scale = 0.1, offset = 0, unit = 'bar' }, b = { unit = 'K' } }",
            "kind = 'thin'\nevery = '100ms'",
            "kind = 'reduce'\nevery = 100\nstatistics = ['mean', 'q99']",
            "kind = 'filter'\nresponse = { lowpass = 50 }",
            "kind = 'filter'\nresponse = { notch = [49, 51.5] }\norder = 8",
            "kind = 'resample'\nrate = 360",
            "kind = 'resample'\nrate = 0.5",
            "kind = 'resample'\nrate = '44.1k'",
            "kind = 'resample'\nrate = '1000/3'",
            "kind = 'publish'",
            "kind = 'publish'\nevery = '100ms'\npriority = 5",
            "kind = 'spectrum'\nsize = 1024",
            "kind = 'spectrum'\nsize = '1s'\noverlap = 0\nwindow = 'blackman-harris'\nscale = 'power'\naverage = 8",
        ];
        let read = |settings: &str| {
            let text = format!("[[node]]\nname = 'lab/y'\ninput = 'lab/x'\n{settings}");
            nodes(&text.parse::<Table>().unwrap()["node"])
        };
        for settings in settings {
            let [node] = &read(settings).unwrap()[..] else { panic!("one node") };
            // It is shown as it can be written again.
            let shown: Table = node_text(&json!(node)).unwrap().parse().unwrap();
            assert_eq!(nodes(&shown["node"]).unwrap(), std::slice::from_ref(node), "{settings}");
            let unknown = format!("{:#}", read(&format!("{settings}\nevry = 1")).unwrap_err());
            assert!(unknown.contains("unknown field `evry`"), "{unknown}");
        }
        let refused = |settings: &str| format!("{:#}", read(settings).unwrap_err());
        assert!(refused("kind = 'filter'\nresponse = { lowpass = 50 }\norder = 3").contains("order"));
        assert!(refused("kind = 'resample'\nrate = 'fast'").contains("`fast` is not a sample rate"));
        assert!(refused("kind = 'spectrum'\nsize = 8\nwindow = 'hamming'").contains("`hann`, `rectangular`"));
        assert!(
            refused("kind = 'reduce'\nevery = 10\nstatistics = ['median']").contains("q50 for the median")
        );
    }

    #[test]
    fn operators_in_python_are_read_as_the_guide_writes_them() {
        let read = |settings: &str| {
            let text = format!("[[node]]\nname = 'lab/y'\nkind = 'operator'\ninputs = ['lab/x']\n{settings}");
            nodes(&text.parse::<Table>().unwrap()["node"])
        };
        for settings in [
            "python = 'my_ops.py:rms'",
            "python = 'my_ops.py:rms'\nevery = 100\ndtype = 'f4'\nincomplete = 'give'\nmemory = '512MiB'\n\
             channels = [{ name = 'rms', unit = 'V' }]\nsettings = { share = 0.5 }",
        ] {
            let [node] = &read(settings).unwrap()[..] else { panic!("one node") };
            let mut status = json!(node);
            status["process"] = json!({"state": "running", "pid": 7, "starts": 2, "last_end": null});
            let shown = node_text(&status).unwrap();
            assert!(shown.contains("# process 7: running, started 2 times\n"), "{shown}");
            let shown: Table = shown.parse().unwrap();
            assert_eq!(nodes(&shown["node"]).unwrap(), std::slice::from_ref(node), "{settings}");
            let unknown = format!("{:#}", read(&format!("evry = 1\n{settings}")).unwrap_err());
            assert!(unknown.contains("unknown field `evry`"), "{unknown}");
        }
        let refused = |settings: &str| format!("{:#}", read(settings).unwrap_err());
        assert!(refused("python = 'my_ops'").contains("module:function"));
        assert!(refused("python = 'my_ops.py:rms'\nmemory = '1kB'").contains("invalid memory"));
    }

    #[test]
    fn the_origin_of_a_graph_is_told_with_what_is_wrong() {
        let text = origin_text(&json!({"from": "file", "file": "lab.toml", "kept": "/a/graph.json"}));
        assert_eq!(
            text,
            "# from lab.toml, by --graph\n# the graph that is applied last is kept in /a/graph.json\n"
        );
        let text = origin_text(&json!({"from": "settings", "problem": "damaged\nrepair it"}));
        assert_eq!(text, "# from the settings\n# damaged\n# repair it\n");
    }

    #[test]
    fn a_graph_that_a_server_kept_can_be_applied_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("graph.json.aside-1");
        std::fs::write(&path, r#"{"revision": 4, "node": [{"name": "a", "kind": "publish", "input": "b"}]}"#)
            .unwrap();
        assert_eq!(read(&path).unwrap().len(), 1);
        let table = folder.path().join("graph.toml");
        std::fs::write(&table, "revision = 4").unwrap();
        assert!(read(&table).unwrap_err().to_string().contains("unknown key `revision`"));
    }

    #[test]
    fn nodes_of_events_are_read_as_the_guide_writes_them() {
        let settings = [
            "kind = 'alarm'\ninput = 'lab/x:a'\nhigh_alarm = 5",
            "kind = 'alarm'\ninput = ['lab/x:a', 'lab/x:b']\nlow_alarm = -2.5\nlow_warning = 0\nhysteresis = 1\nhold = '1s'\n\
             silence = 10",
            "kind = 'trigger'\ninput = 'lab/x:a'\nlevel = 1\nafter = '10ms'",
            "kind = 'trigger'\ninput = 'lab/x:a'\nchannels = ['b', 'c']\nlevel = 0.5\nedge = 'either'\nhysteresis = 0.1\n\
             before = 100\nafter = 400\nholdoff = '1s'",
        ];
        let read = |settings: &str| {
            let text = format!("[[node]]\nname = 'lab/y'\n{settings}");
            nodes(&text.parse::<Table>().unwrap()["node"])
        };
        for settings in settings {
            let [node] = &read(settings).unwrap()[..] else { panic!("one node") };
            let shown: Table = node_text(&json!(node)).unwrap().parse().unwrap();
            assert_eq!(nodes(&shown["node"]).unwrap(), std::slice::from_ref(node), "{settings}");
            let unknown = format!("{:#}", read(&format!("{settings}\nevry = 1")).unwrap_err());
            assert!(unknown.contains("unknown field `evry`"), "{unknown}");
        }
        let refused = |settings: &str| format!("{:#}", read(settings).unwrap_err());
        assert!(refused("kind = 'alarm'\ninput = 'lab/x'\nhigh_alarm = 5").contains("stream:channel"));
        assert!(refused("kind = 'alarm'\ninput = 'lab/x:a'").contains("high_warning"));
    }
}
