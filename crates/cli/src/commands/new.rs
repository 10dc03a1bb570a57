//! `strobe new`.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use strobe_lab::Experiment;

use super::load::{self, LoadArgs};
use super::options::Options;
use super::{Failure, output};

#[derive(Args)]
#[command(after_help = "Examples:
  strobe new mine.toml
  strobe new reads.toml --drive tlc-nvme-1t --rw randread --bs 16k --iodepth 64

Then edit it, `strobe check mine.toml`, `strobe run mine.toml`.")]
pub(crate) struct NewArgs {
    /// File to write; an existing file is not overwritten
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// The drive: a preset (`strobe list presets`) or a TOML file with the keys of [drive]
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "tlc-nvme-1t")]
    drive: String,
    #[command(flatten)]
    load: LoadArgs,
}

pub(crate) fn new(args: &NewArgs) -> Result<(), Failure> {
    let mut options = Options::new(&[]);
    let default = LoadArgs::random_writes();
    let load = if args.load.is_empty() { &default } else { &args.load };
    let load = load.load(Some(&args.drive), &mut options).map_err(|why| Failure::Request(anyhow!(why)))?;
    load.notes.iter().for_each(|note| output::note(&format!("note: {note}")));
    let table = load.experiment;
    options.name_option(Experiment::from_table(table.clone(), &[], Path::new("")))?;
    let name = args.file.display().to_string();
    let made = OpenOptions::new().write(true).create_new(true).open(&args.file);
    let mut file = made.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Failure::Request(anyhow!("{name} exists and is not overwritten; name another file"))
        }
        _ => Failure::Request(anyhow!("{name}: {error}")),
    })?;
    file.write_all(load::text(&table, &name).as_bytes())
        .map_err(|error| Failure::Run(anyhow!("{name}: cannot write: {error}")))?;
    output::note(&format!("{name} is written; run it with `strobe run {name}`"));
    Ok(())
}
