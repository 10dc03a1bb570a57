//! `strobe crash --faults`: reads that fail.

use indicatif::ProgressBar;
use strobe_cli::output::Output;
use strobe_cli::report;
use strobe_crash::Explorer;
use strobe_types::StopFlag;

use super::super::{Failure, output, progress};
use super::CrashArgs;

/// Makes `count` places of each file system unreadable, one at a time, and prints what came of it.
pub(super) fn faults(
    args: &CrashArgs,
    explorers: &[Explorer],
    count: usize,
    json: Option<&Output>,
    stop: &StopFlag,
) -> Result<(), Failure> {
    let mut reports = Vec::new();
    for explorer in explorers {
        let bar = if args.quiet { ProgressBar::hidden() } else { ProgressBar::new(count as u64) };
        progress::restyle(&bar, "{msg} {wide_bar} {pos} of {len} places  {left}");
        bar.set_message("the program");
        bar.tick();
        let rehearsed = explorer.rehearse(stop)?;
        bar.set_message("reads that fail");
        let report = explorer.fail_reads(&rehearsed, count, stop, &|_| bar.inc(1))?;
        bar.finish_and_clear();
        if !args.quiet && !json.is_some_and(Output::is_stdout) {
            output::print(&report::fault_summary(&report, args.full))?;
        }
        reports.push(report);
    }
    match &reports[..] {
        [report] => output::json(report, json),
        _ => output::json(&serde_json::json!({ "reports": reports }), json),
    }
}
