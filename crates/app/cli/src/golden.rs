//! Golden files of the command line: the help of every verb, and every name that it accepts.
//!
//! The help is in `tests/golden/help`, one file per verb. `tests/golden/names.snap` lists verbs, options, values and
//! their aliases, the hidden ones too, so that no name used in scripts disappears unnoticed. `INSTA_UPDATE=always`
//! rewrites both.

use clap::{Arg, Command, CommandFactory};

use crate::{Cli, help};

/// Line width of the help: that of the usual terminal.
const WIDTH: usize = 80;

fn settings(folder: &str) -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(format!("../../../../tests/golden/{folder}"));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
}

/// Returns the command and every verb below it, each with its name: `tallycast bench sweep`.
fn verbs(command: &Command, path: &str, found: &mut Vec<(String, Command)>) {
    let name = if path.is_empty() {
        command.get_name().to_owned()
    } else {
        format!("{path} {}", command.get_name())
    };
    found.push((name.clone(), command.clone()));
    for verb in command.get_subcommands().filter(|it| it.get_name() != "help") {
        verbs(verb, &name, found);
    }
}

fn all_verbs() -> Vec<(String, Command)> {
    let mut command = help::fitted(Cli::command(), WIDTH);
    command.build();
    let mut found = Vec::new();
    verbs(&command, "", &mut found);
    found
}

/// Returns the names of an option: `-b --bitrate`, `(--old)` for a hidden one, and its values.
fn names(argument: &Arg) -> String {
    let mut names: Vec<String> = argument.get_short().into_iter().map(|it| format!("-{it}")).collect();
    names.extend(argument.get_long().map(|it| format!("--{it}")));
    names.extend(argument.get_visible_aliases().into_iter().flatten().map(|it| format!("--{it}")));
    let visible = argument.get_visible_aliases().unwrap_or_default();
    let hidden = argument.get_all_aliases().into_iter().flatten().filter(|it| !visible.contains(it));
    names.extend(hidden.map(|it| format!("(--{it})")));
    let values = argument.get_possible_values();
    let values: Vec<String> =
        values.iter().map(|it| it.get_name_and_aliases().collect::<Vec<_>>().join("/")).collect();
    if !values.is_empty() && argument.get_action().takes_values() {
        names.push(format!("= {}", values.join(" | ")));
    }
    names.join(" ")
}

#[test]
fn the_help_of_every_verb_is_what_was_published() {
    for (name, mut verb) in all_verbs() {
        let help = verb.render_long_help().to_string();
        settings("help").bind(|| insta::assert_snapshot!(name.replace(' ', "-"), help));
    }
}

#[test]
fn the_help_of_every_verb_fits_eighty_columns() {
    for (name, mut verb) in all_verbs() {
        for help in [verb.render_long_help(), verb.render_help()] {
            let help = help.to_string();
            let wide: Vec<&str> =
                help.lines().filter(|line| line.trim_end().chars().count() > WIDTH).collect();
            assert!(wide.is_empty(), "{name}: {wide:#?}");
        }
    }
}

#[test]
fn every_name_that_was_published_is_still_taken() {
    let mut lines = Vec::new();
    for (name, verb) in all_verbs() {
        let aliases: Vec<String> = verb.get_all_aliases().map(|it| format!(" ({it})")).collect();
        lines.push(format!("{name}{}", aliases.concat()));
        let mut options: Vec<String> = verb
            .get_opts()
            .chain(verb.get_arguments().filter(|it| !it.get_action().takes_values()))
            .map(names)
            .collect();
        options.sort();
        options.dedup();
        lines.extend(options.into_iter().map(|it| format!("    {it}")));
        let positions = verb.get_positionals().map(|it| format!("    <{}> {}", it.get_id(), names(it)));
        lines.extend(positions.map(|it| it.trim_end().to_owned()));
    }
    settings("").bind(|| insta::assert_snapshot!("names", lines.join("\n")));
}
