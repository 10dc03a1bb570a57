//! The summary of a command in a guest.

use std::fmt::Write as _;

use strobe_linux::command::LinuxResult;

use super::{
    copy_line, count, dies_line, duration, flash_table, latency, merge_line, slc_line, translation_line,
    trimmed,
};

/// The summary of a command in a guest as text.
pub fn linux_summary(result: &LinuxResult) -> String {
    let (guest, requests) = (&result.guest, &result.requests);
    let waf = result.waf.map_or("-".to_owned(), |waf| format!("{waf:.3}"));
    let on = guest.file_system.as_deref().unwrap_or("the bare drive");
    let mut out = format!(
        "{} on {on}, Linux {}: {} of {} time, write amplification {waf}\n",
        guest.command.first().map_or("", String::as_str),
        guest.kernel,
        duration(result.time.virtual_ns as f64),
        guest.clock,
    );
    let job = &result.jobs[0];
    let _ = writeln!(out, "\n{}", latency::by_kind(job, result.time.virtual_ns));
    if requests.discard > 0 {
        let (ranges, commands) = (requests.discard_ranges, requests.discard);
        let each = ranges as f64 / commands as f64;
        let _ = writeln!(out, "discards: {} ranges, {each:.1} per command", count(ranges));
    }
    let _ = writeln!(out, "\n{}", flash_table(&result.nand));
    let lines = [
        dies_line(&result.dies),
        result.copy.as_ref().map(copy_line),
        result.merges.as_ref().map(merge_line),
        result.translation.as_ref().map(translation_line),
        result.slc.as_ref().map(slc_line),
        guest.out_of_memory.then(|| format!(
            "note: the guest ran out of memory and its kernel ended a program: --memory above {} gives it more",
            guest.memory_mib
        )),
        guest.drive_error.as_ref().map(|error| format!("note: the guest saw an error of the drive: {error}")),
    ];
    for line in lines.into_iter().flatten() {
        let _ = writeln!(out, "\n{line}");
    }
    if let (Some(files), Some(digest)) = (guest.root.files, &guest.root.digest) {
        let short = digest.get(..12).unwrap_or(digest);
        let _ = writeln!(out, "\nroot: {} files of this machine were read, digest {short}", count(files));
    }
    let wall = result.time.wall_s.map_or(String::new(), |wall| format!("; {wall:.1} s of wall time in all"));
    let processor = match guest.cpu {
        None => "no time: this is what the drive allows".to_owned(),
        Some(cost) => format!(
            "{} ns for a system call and {} ns for each KiB that it copies, else no time",
            cost.syscall_ns, cost.copy_ns_per_kib
        ),
    };
    let _ = write!(
        out,
        "\nThe measured window is the command and the sync behind it, {} of {} since power-on{wall}. The guest's \
         processor takes {processor}.",
        duration(result.time.virtual_ns as f64),
        duration(result.time.session_ns as f64),
    );
    trimmed(&out)
}
