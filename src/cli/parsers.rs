//! `couplet parsers`: the dialects that are served, and which of them fit a model.

use clap::Args;

use crate::app::StartError;
use crate::model::{LoadOptions, Model};
use crate::parsers::auto::Choice;
use crate::parsers::{Entry, Kind, registry};

/// Flags of `couplet parsers`.
#[derive(Debug, Clone, Default, Args)]
pub struct Options {
    /// A model directory or hub id: tells which parsers `auto` would choose for it, and why.
    #[arg(long, value_name = "DIR_OR_HUB_ID")]
    pub model: Option<String>,
}

/// Prints the table, or the choices for a model.
pub fn run(options: &Options) -> Result<(), StartError> {
    match &options.model {
        Some(model) => print(&choices(model)?),
        None => print(&table()),
    }
    Ok(())
}

fn choices(model: &str) -> Result<String, StartError> {
    let [tools, reasoning] = Model::load(LoadOptions::new(model))?.choose_parsers();
    let told = |flag: &str, choice: Option<Choice>| match choice {
        Some(Choice { name, why }) => format!("{flag} {name}   ({why})\n"),
        None => format!("{flag} none   (no rule fits)\n"),
    };
    Ok(told("--tool-call-parser", tools) + &told("--reasoning-parser", reasoning))
}

fn table() -> String {
    let mut out = format!("{:<26} {:<10} {:<24} {:<28} {}\n", "NAME", "KIND", "ALIASES", "NEEDS", "FAMILIES");
    for Entry { name, aliases, kind, families, needs } in registry() {
        let kind = match kind {
            Kind::Tool => "tool",
            Kind::Reasoning => "reasoning",
            Kind::Both => "both",
        };
        let line = format!("{name:<26} {kind:<10} {:<24} {:<28} {families}", aliases.join(" "), needs.join(" "));
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[expect(clippy::print_stdout, reason = "the answer of a command")]
fn print(text: &str) {
    print!("{text}");
}
