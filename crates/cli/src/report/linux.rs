//! Summaries of a command in a guest: one screen, or all numbers.

use std::fmt::Write as _;

use strobe_lab::WindowVerdict;
use strobe_linux::command::{LinuxResult, keep_data};

use super::overview::differs;
use super::style::Style;
use super::{
    brief, broken, copy_line, count, dies_line, duration, errors_line, flash_table, latency, merge_line,
    slc_line, terminal_width, translation_line, trimmed,
};

/// Default summary of a command in a guest: one screen. `--full` prints the rest.
pub fn linux_brief(result: &LinuxResult, style: Style) -> String {
    let guest = &result.guest;
    let head = format!(
        "{} on {}, Linux {}: {} of {} time, {} since power-on",
        program(result),
        file_system(result),
        guest.kernel,
        duration(result.time.virtual_ns as f64),
        guest.clock,
        duration(result.time.session_ns as f64),
    );
    let in_lines = |text: &str| broken(text, terminal_width()).join("\n");
    let mut out =
        format!("{}\n{}\n", in_lines(&head), brief::drive(&result.drive, differs(&result.drive, keep_data)));
    for note in notes(result) {
        let _ = writeln!(out, "{}", style.warning(&in_lines(&note)));
    }
    let speed = brief::speed(&result.jobs[0], result.time.virtual_ns);
    let rates = speed.is_some().then(|| brief::labelled("rates", &averaged(result)));
    let parts = [
        Some(brief::amplification(result.waf, &result.drive, &result.nand, None, style)),
        speed,
        rates,
        errors_line(&result.host).map(|line| style.warning(&line)),
        Some(flash(result)),
        Some(brief::wear(&result.wear, result.drive.nand.endurance_pe)),
        Some(brief::lifetime(
            &result.drive,
            &result.wear,
            (result.waf, WindowVerdict::of(result.waf, result.nand.erase.total, None)),
            result.host.pages_written,
            result.time.virtual_ns,
        )),
        brief::longest(&result.jobs)
            .map(|(name, ns)| brief::labelled("slowest", &format!("a {name} took {}", duration(ns as f64)))),
    ];
    let _ = writeln!(out);
    for part in parts.into_iter().flatten() {
        let _ = writeln!(out, "{part}");
    }
    let next = "--full prints all numbers, --json out.json writes them, --report out.html draws them";
    let _ = write!(out, "\n{}\n{}", in_lines(next), style.faint(&in_lines(&origin(result))));
    trimmed(&out)
}

/// Time over which IOPS and MB/s are averaged.
fn averaged(result: &LinuxResult) -> String {
    let window = duration(result.time.virtual_ns as f64);
    format!("averages over {window}: command and sync, idle time included")
}

fn flash(result: &LinuxResult) -> String {
    let (nand, dies) = (&result.nand, &result.dies);
    let mut text = format!(
        "{} pages programmed, {} read, {} blocks erased",
        count(nand.program.total),
        count(nand.read.total),
        count(nand.erase.total)
    );
    if let Some(busy) = dies.busy {
        let plural = if dies.count == 1 { "die" } else { "dies" };
        let _ = write!(text, "; {} {plural} {:.1} % busy", count(dies.count.into()), 100.0 * busy);
    }
    brief::labelled("flash", &text)
}

fn origin(result: &LinuxResult) -> String {
    let root = match (result.guest.root.files, &result.guest.root.digest) {
        (Some(files), Some(digest)) => {
            format!(", root {} ({} files)", digest.get(..12).unwrap_or(digest), count(files))
        }
        _ => String::new(),
    };
    let wall = result.time.wall_s.map_or(String::new(), |wall| format!("; {wall:.1} s of wall time"));
    format!("seed {}{root}, strobe {}{wall}", result.seed, result.strobe_version)
}

fn program(result: &LinuxResult) -> &str {
    result.guest.command.first().map_or("", String::as_str)
}

fn file_system(result: &LinuxResult) -> &str {
    result.guest.file_system.as_deref().unwrap_or("the bare drive")
}

fn notes(result: &LinuxResult) -> Vec<String> {
    let guest = &result.guest;
    let memory = guest.out_of_memory.then(|| {
        let memory = guest.memory_mib;
        format!("note: out of memory: the guest's kernel killed a program; set --memory above {memory}")
    });
    let spun = (!guest.spun.is_empty()).then(|| {
        format!(
            "note: not repeatable: {} computed without a system call for longer than --spin-limit, and virtual time \
             advanced with this machine's processor",
            guest.spun.join(", ")
        )
    });
    let error =
        guest.drive_error.as_ref().map(|error| format!("note: the guest saw an error of the drive: {error}"));
    // A run in virtual time without busy programs is repeatable, unless the kernel is too old.
    let is_old = !guest.root.repeatable && guest.spun.is_empty() && guest.clock == "virtual";
    let kernel = is_old.then(|| {
        format!(
            "note: not repeatable: kernels before Linux 6.12 do not repeat every run, and this was {}",
            guest.kernel
        )
    });
    let outside = guest.root.outside.as_ref().map(|outside| format!("note: {outside}"));
    memory.into_iter().chain(spun).chain(kernel).chain(error).chain(outside).collect()
}

/// Full summary of a command in a guest.
pub fn linux_summary(result: &LinuxResult) -> String {
    let (guest, requests) = (&result.guest, &result.requests);
    let waf = result.waf.map_or("-".to_owned(), |waf| format!("{waf:.3}"));
    let mut out = format!(
        "{} on {}, Linux {}: {} of {} time, write amplification {waf}\n",
        program(result),
        file_system(result),
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
    ];
    for line in lines.into_iter().flatten().chain(notes(result)) {
        let _ = writeln!(out, "\n{line}");
    }
    if let (Some(files), Some(digest)) = (guest.root.files, &guest.root.digest) {
        let short = digest.get(..12).unwrap_or(digest);
        let _ = writeln!(out, "\nroot: {} files of this machine were read, digest {short}", count(files));
    }
    let wall = result.time.wall_s.map_or(String::new(), |wall| format!("; {wall:.1} s of wall time in all"));
    let processor = match guest.cpu {
        None => "no time: the drive alone sets the speed".to_owned(),
        Some(cost) => format!(
            "{} for a system call, {} for each KiB copied, {} for a fork and three times as much to load a program, \
             and no time otherwise",
            duration(cost.syscall_ns.into()),
            duration(cost.copy_ns_per_kib.into()),
            duration(cost.process_ns.into())
        ),
    };
    let _ = write!(
        out,
        "\nThe measured window is the command and the sync after it, {} of {} since power-on{wall}. IOPS and MB/s are \
         averages over this window, idle time included. The guest's processor takes {processor}.",
        duration(result.time.virtual_ns as f64),
        duration(result.time.session_ns as f64),
    );
    trimmed(&out)
}
