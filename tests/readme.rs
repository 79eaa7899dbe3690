//! The README's table of flags and the flags that exist are the same.

use std::collections::BTreeSet;

use clap::{CommandFactory, Parser};
use couplet::cli::Cli;

const README: &str = include_str!("../README.md");

#[test]
fn every_flag_is_in_the_readme_and_no_other() {
    let command = Cli::command();
    let serve = command.find_subcommand("serve").unwrap();
    let flags: BTreeSet<String> =
        serve.get_arguments().filter_map(|flag| flag.get_long()).map(|flag| format!("--{flag}")).collect();
    let table = README.split_once("## Flags").unwrap().1.split_once("## ").unwrap().0;
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let named = rows.flat_map(|row| row.split('`').skip(1).step_by(2)).filter(|name| name.starts_with("--"));
    assert_eq!(named.map(str::to_owned).collect::<BTreeSet<_>>(), flags);
}

#[test]
fn the_commands_in_the_readme_are_understood() {
    let blocks = README.split("```sh\n").skip(1).map(|rest| rest.split_once("```").unwrap().0);
    let text = blocks.collect::<String>().replace("\\\n", " ");
    let commands: Vec<_> = text.lines().filter(|line| line.starts_with("couplet ")).collect();
    assert!(commands.len() >= 2);
    for command in commands {
        Cli::try_parse_from(command.split_whitespace()).unwrap_or_else(|error| panic!("{command}: {error}"));
    }
}
