//! `strobe crash --explore`: random programs, and the promises that a file system breaks.

use std::path::Path;

use anyhow::anyhow;
use indicatif::ProgressBar;
use strobe_cli::output::Output;
use strobe_crash::{ACKNOWLEDGED, Broken, Explorer, Search, check_program};
use strobe_types::StopFlag;

use super::super::{Failure, output, progress};
use super::CrashArgs;

pub(super) fn explore(
    args: &CrashArgs,
    explorers: &[Explorer],
    count: u64,
    json: Option<&Output>,
    stop: &StopFlag,
) -> Result<(), Failure> {
    let own = std::env::current_exe()
        .map_err(|error| Failure::Run(anyhow!("cannot find this program: {error}")))?;
    if let Some(folder) = strobe_linux::hidden_by(&own) {
        let text = format!("{} is below {folder}, which guests replace by their own: move it", own.display());
        return Err(Failure::Request(anyhow!(text)));
    }
    let check = [&*own.display().to_string(), "crash", "--program-check"].map(str::to_owned);
    let programs = args.first_program..args.first_program + count;
    let shows = !args.quiet && !json.is_some_and(Output::is_stdout);
    let bar =
        if args.quiet { ProgressBar::hidden() } else { ProgressBar::new(count * explorers.len() as u64) };
    progress::restyle(&bar, "{msg} {wide_bar} {pos} of {len} programs  {left}");
    bar.set_message("nothing broken");
    let (mut broken, mut tried): (Vec<Broken>, u64) = (Vec::new(), 0);
    let mut ended = Ok(());
    'all: for explorer in explorers {
        let search = Search {
            explorer: explorer.clone(),
            check: check.to_vec(),
            seed: explorer.run.experiment.seed,
            length: args.program_length as usize,
        };
        for number in programs.clone() {
            match search.one(number, stop) {
                Ok(None) => {}
                Ok(Some(one)) => {
                    if shows {
                        bar.suspend(|| output::print(&finding_text(&one)))?;
                    }
                    broken.push(one);
                    bar.set_message(format!("{} broken", broken.len()));
                }
                // Findings before the error still count.
                Err(error) => {
                    ended = Err(error);
                    break 'all;
                }
            }
            tried += 1;
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    if tried == 0 {
        ended?;
        return Ok(());
    }
    if shows {
        let names: Vec<&str> = explorers.iter().filter_map(|one| one.run.file_system.kernel_name()).collect();
        let all = count * explorers.len() as u64;
        let programs = if tried < all { format!("{tried} of {all}") } else { count.to_string() };
        let (names, broken) = (names.join(", "), broken.len());
        output::print(&format!("{programs} programs on {names}: {broken} broke a promise\n"))?;
    }
    let programs = if ended.is_ok() { count } else { tried };
    output::json(&serde_json::json!({ "programs": programs, "broken": broken }), json)?;
    ended?;
    if broken.is_empty() { Ok(()) } else { Err(Failure::Found) }
}

fn finding_text(of: &Broken) -> String {
    let script: String = of.script.lines().skip(1).map(|line| format!("    {line}\n")).collect();
    let cut = match of.done {
        0 => "before line 1".to_owned(),
        done => format!("after line {done}"),
    };
    format!(
        "program {} on {}, power cut {cut}: {}\n{script}  again: the same command with --fs {} --explore 1 --first-program {}\n",
        of.number,
        of.file_system,
        of.reason.lines().next().unwrap_or(""),
        of.file_system,
        of.number
    )
}

/// Check of `--explore`, run in the guest: exit code 1 if a promise is broken.
pub(super) fn check(plan: &Path) -> Result<(), Failure> {
    let acknowledged = std::env::var_os(ACKNOWLEDGED).unwrap_or_default();
    match check_program(plan, Path::new(&acknowledged), Path::new("."))? {
        None => Ok(()),
        Some(reason) => {
            output::print(&reason)?;
            Err(Failure::Found)
        }
    }
}
