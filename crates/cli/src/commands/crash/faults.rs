//! `strobe crash --faults`: reads that fail.

use indicatif::ProgressBar;
use strobe_cli::output::Output;
use strobe_cli::report;
use strobe_crash::{Explorer, FaultReport};
use strobe_types::StopFlag;

use super::super::{Failure, output, progress};
use super::{CrashArgs, NotTried};

pub(super) fn faults(
    args: &CrashArgs,
    explorers: &[Explorer],
    count: usize,
    json: Option<&Output>,
    stop: &StopFlag,
) -> Result<(), Failure> {
    let (mut reports, mut failed) = (Vec::new(), Vec::new());
    for explorer in explorers {
        let report = match report_of(args, explorer, count, stop) {
            // Reports of other file systems still count.
            Err(failure) if explorers.len() > 1 => {
                failed.push(NotTried::of(explorer, failure)?);
                if stop.is_raised() {
                    break;
                }
                continue;
            }
            report => report?,
        };
        if !args.quiet && !json.is_some_and(Output::is_stdout) {
            output::print(&report::fault_summary(&report, args.full))?;
        }
        reports.push(report);
    }
    match &reports[..] {
        [report] if failed.is_empty() => output::json(report, json)?,
        _ => output::json(&serde_json::json!({ "reports": reports, "failed": failed }), json)?,
    }
    failed.first().map_or(Ok(()), |first| Err(first.failure()))
}

fn report_of(
    args: &CrashArgs,
    explorer: &Explorer,
    count: usize,
    stop: &StopFlag,
) -> Result<FaultReport, Failure> {
    let bar = if args.quiet { ProgressBar::hidden() } else { ProgressBar::new(count as u64) };
    progress::restyle(&bar, "{msg} {wide_bar} {pos} of {len} places  {left}");
    bar.set_message("the program");
    bar.tick();
    let rehearsed = explorer.rehearse(stop)?;
    bar.set_message("reads that fail");
    let report = explorer.fail_reads(&rehearsed, count, stop, &|_| bar.inc(1))?;
    bar.finish_and_clear();
    Ok(report)
}
