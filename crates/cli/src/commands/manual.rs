//! `strobe man` and `strobe completions`, for packages and shells.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;
use strobe_cli::output::Output;

use super::{Cli, Failure, output};

#[derive(Args)]
pub(crate) struct CompletionsArgs {
    /// Shell: `strobe completions bash > /etc/bash_completion.d/strobe`
    shell: Shell,
}

#[derive(Args)]
pub(crate) struct ManArgs {
    /// Write one page per command to DIR, which must exist, instead of the main page to standard output
    #[arg(long, value_name = "DIR")]
    out: Option<String>,
}

pub(crate) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "strobe", &mut text);
    output::print(String::from_utf8_lossy(&text).trim_end())
}

pub(crate) fn man(args: &ManArgs) -> Result<(), Failure> {
    let mut command = Cli::command();
    command.build();
    let Some(folder) = &args.out else {
        return output::print(&rendered(command)?);
    };
    write_pages(folder, command)
}

fn write_pages(folder: &str, command: clap::Command) -> Result<(), Failure> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
    {
        write_pages(folder, inner.clone())?;
    }
    Output::new("--out", &format!("{folder}/{name}.1"), &[])?.write(&rendered(command)?)?;
    Ok(())
}

fn rendered(command: clap::Command) -> Result<String, Failure> {
    let mut text = Vec::new();
    let rendered = clap_mangen::Man::new(command).render(&mut text);
    rendered.map_err(|error| Failure::Run(error.into()))?;
    Ok(String::from_utf8_lossy(&text).trim_end().to_owned())
}
