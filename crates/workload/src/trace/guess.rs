//! Format detection, for error messages.

use std::io::Cursor;
use std::path::Path;

use super::error::Position;
use super::input::Input;
use super::line::Line;
use super::problem::{Problem, Reason};
use super::{FORMATS, Format, SkipReason, TraceError, TraceOptions, csv, oracle_general, per_cpu};

const LOOKED_AT_BYTES: usize = 64 << 10;

/// Returns all formats that match the start of the trace at `path`. Several formats share a line shape, so
/// several may match, or none.
pub fn guess(path: &Path) -> Result<Vec<&'static Format>, TraceError> {
    Ok(all_fitting(&start_of(path)?))
}

fn start_of(path: &Path) -> Result<Vec<u8>, TraceError> {
    let mut input = Input::open(&per_cpu::files(path)[0])?;
    let mut start = vec![0; LOOKED_AT_BYTES];
    match input.read(&mut start) {
        Ok(length) => start.truncate(length),
        // What was cut off or is damaged within the start has no lines to judge.
        Err(problem) => return Err(unreadable(input.name(), problem)),
    }
    Ok(start)
}

fn unreadable(name: &str, problem: Problem) -> TraceError {
    let (name, position) = (name.to_owned(), Position::Line(1));
    match problem {
        Problem::Io(source) => TraceError::Io { name, position, source },
        Problem::Truncated(reason) => TraceError::Truncated { name, position, reason },
        Problem::Malformed(reason) => TraceError::Malformed { name, position, reason, text: String::new() },
    }
}

fn all_fitting(start: &[u8]) -> Vec<&'static Format> {
    let is_whole = start.len() < LOOKED_AT_BYTES;
    let mut fitting: Vec<&'static Format> =
        FORMATS.iter().filter(|format| fits(format, start, is_whole)).collect();
    // oracle-general has no magic number, so records of other formats may pass for its records.
    if fitting.len() > 1 {
        fitting.retain(|format| format.name != oracle_general::FORMAT.name);
    }
    fitting
}

/// Error of [`only_format`].
#[derive(Debug, thiserror::Error)]
pub enum NoFormat {
    /// The trace cannot be opened.
    #[error(transparent)]
    Unreadable(#[from] TraceError),
    /// The start is ambiguous or unknown; the text describes the candidates.
    #[error("format is missing, the format of the trace: {0}")]
    Unclear(String),
}

/// Returns the only format that matches the start of the trace at `path`.
///
/// Formats of one shape differ in units and operation codes, so several matches are an error.
pub fn only_format(path: &Path) -> Result<&'static str, NoFormat> {
    // A pipe can be read only once.
    let is_pipe = path == Path::new("-") || path.exists() && !path.is_file() && !path.is_dir();
    let start = if is_pipe { Vec::new() } else { start_of(path)? };
    if start.is_empty() && !is_pipe {
        let path = path.display();
        return Err(NoFormat::Unclear(format!("{path} is empty; record or copy the trace again")));
    }
    let names: Vec<&'static str> = all_fitting(&start).iter().map(|format| format.name).collect();
    let looks = match names[..] {
        [name] => return Ok(name),
        [] => match nearly_fitting(&start) {
            Some((name, line, reason)) => format!(
                "{} is {name} except for line {line} ({reason}); remove or correct that line, or name \
                 another format",
                path.display()
            ),
            None if is_pipe => "a pipe is read only once; `strobe list formats` has the names".to_owned(),
            None if is_header_only(&start) => {
                format!("{} has a header line only; record or copy the trace again", path.display())
            }
            None if separator_of(&start).is_some() => {
                let reason = separator_of(&start).unwrap_or_default();
                format!("{} is a table, but {reason}", path.display())
            }
            None => format!(
                "{} fits no format of `strobe list formats`; of columns of your own give the names: --format csv \
                 --columns time,op,lbn,len",
                path.display()
            ),
        },
        [ref others @ .., last] => format!("{} may be {} or {last}", path.display(), others.join(", ")),
    };
    Err(NoFormat::Unclear(looks))
}

/// True if the only line names columns.
fn is_header_only(start: &[u8]) -> bool {
    let line = std::str::from_utf8(start.trim_ascii()).unwrap_or_default();
    !line.contains('\n') && csv::check_columns(line).is_ok()
}

/// Reason why the first line is no row of columns, if its separator is the fault.
fn separator_of(start: &[u8]) -> Option<Reason> {
    let line = start.split(|&byte| byte == b'\n').next()?;
    csv::other_separator(std::str::from_utf8(line).ok()?)
}

const MISFITS_MAX: usize = 3;

fn nearly_fitting(start: &[u8]) -> Option<(&'static str, u64, Reason)> {
    let found = FORMATS.iter().filter_map(|format| Some((format.name, misfits(format, start)?)));
    let mut found: Vec<(&'static str, Misfits)> = found.collect();
    found.sort_by_key(|(_, misfits)| misfits.lines);
    match &mut found[..] {
        [(_, first), (_, second), ..] if first.lines == second.lines => None,
        [(name, first), ..] => Some((*name, first.line, std::mem::take(&mut first.reason))),
        [] => None,
    }
}

struct Misfits {
    lines: usize,
    line: u64,
    reason: Reason,
}

/// Malformed lines if `start` is read as `format`. `None` without any, with too many, or if `format` is
/// binary.
fn misfits(format: &Format, start: &[u8]) -> Option<Misfits> {
    // Ignore a last line that is cut off.
    let end = if start.len() < LOOKED_AT_BYTES { start.len() } else { memchr::memrchr(b'\n', start)? };
    let mut lines: Vec<&[u8]> = start[..end].split(|&byte| byte == b'\n').collect();
    let mut first: Option<Misfits> = None;
    // Each pass blanks one malformed line and reads again. Blanking keeps line numbers valid.
    loop {
        let (records, problem) = decoded(format, &lines.join(&b'\n'));
        let Some((line, reason)) = problem? else {
            return first.filter(|misfits| records > misfits.lines);
        };
        let found = first.get_or_insert(Misfits { lines: 0, line, reason });
        found.lines += 1;
        if found.lines > MISFITS_MAX {
            return None;
        }
        *lines.get_mut(usize::try_from(line).ok()?.checked_sub(1)?)? = b"";
    }
}

/// Number of records before the first malformed line, and that line. The inner `None` means no error; the
/// outer one means an error that is not in a line of text.
fn decoded(format: &Format, bytes: &[u8]) -> (usize, Option<Option<(u64, Reason)>>) {
    let mut records = 0;
    let Ok(input) = Input::new(Box::new(Cursor::new(bytes.to_vec())), "") else { return (0, None) };
    let mut source = format.decoder(input, Vec::new(), &TraceOptions::default());
    loop {
        let problem = match source.next() {
            Ok(Some(Line::Nothing | Line::Skip(SkipReason::Header))) => continue,
            Ok(Some(Line::Record { .. } | Line::Skip(_))) => {
                records += 1;
                continue;
            }
            Ok(None) => return (records, Some(None)),
            Err(Problem::Malformed(reason)) => reason,
            Err(Problem::Io(_) | Problem::Truncated(_)) => return (records, None),
        };
        let Position::Line(line) = source.position() else { return (records, None) };
        return (records, Some(Some((line, problem))));
    }
}

/// True if `start` consists of one or more records of `format`.
fn fits(format: &Format, start: &[u8], is_whole: bool) -> bool {
    // The start of a larger file may end within a record.
    let last_line = if is_whole { None } else { memchr::memrchr(b'\n', start) };
    let text = last_line.map_or(start, |end| &start[..end]);
    // The last line may be cut and still parse, so try without it first. Binary records report the cut.
    [text, start].into_iter().take(if last_line.is_some() { 2 } else { 1 }).any(|bytes| {
        let Ok(input) = Input::new(Box::new(Cursor::new(bytes.to_vec())), "") else { return false };
        let mut source = format.decoder(input, Vec::new(), &TraceOptions::default());
        let mut records = 0;
        loop {
            match source.next() {
                Ok(Some(Line::Nothing | Line::Skip(SkipReason::Header))) => {}
                Ok(Some(Line::Record { .. } | Line::Skip(_))) => records += 1,
                Ok(None) => return records > 0,
                Err(Problem::Truncated(_)) => return records > 0 && !is_whole,
                Err(Problem::Io(_) | Problem::Malformed(_)) => return false,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn guessed(bytes: &[u8]) -> Vec<&'static str> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t");
        fs::write(&path, bytes).expect("writable");
        guess(&path).expect("readable").iter().map(|format| format.name).collect()
    }

    #[test]
    fn lines_of_one_shape_are_told_apart_or_not() {
        for (text, expected) in [
            ("fio version 3 iolog\n0 f add\n7 f write 0 4096\n", &["fio"][..]),
            ("8,0 0 1 0.5 99 D W 0 + 8 [x]\n", &["blkparse"]),
            ("128166372003061629,hm,1,Write,0,4096,413\n", &["msr"]),
            ("0.5 0 0 8 0\n", &["disksim"]),
            ("48513000 0 0 8 0\n", &["disksim", "mqsim", "ssdsim"]),
            ("0,0,4096,W,0.5\n", &["spc"]),
            ("419,W,0,4096,1577808144360767\n", &["alibaba"]),
            ("1538323200,0,8,1,1063\n", &["tencent"]),
            ("strobe trace 1\n5 write 0 4096\n", &["strobe"]),
            ("Timestamp,Response,IOType,LUN,Offset,Size\n1.5,0.1,R,0,0,512\n", &["systor"]),
            ("0 4892 syslogd 904265560 8 W 6 0 531e779e\n", &["fiu"]),
            ("", &[]),
            ("fio version 3 iolog\n", &[]),
            ("0,0,4096,W,0.5\nnonsense\n", &[]),
            ("Dear reader,\n", &[]),
        ] {
            assert_eq!(guessed(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_file_that_is_there_is_named_by_all_but_some_of_its_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t");
        let said = |text: &str| {
            fs::write(&path, text).expect("writable");
            only_format(&path).map_err(|error| error.to_string())
        };
        let line = "128166372003061629,hm,1,Write,0,4096,413\n";
        let header = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n";
        assert_eq!(said(&format!("{header}{}", line.repeat(5))), Ok("msr"));
        let bad = line.replace("Write", "Wrote");
        let error =
            said(&format!("{}{bad}{}{bad}", line.repeat(5), line.repeat(3))).expect_err("an operation");
        assert!(error.contains("is msr except for line 6 (column Type must be"), "{error}");
        // Neither half of the lines nor more than the limit is a near match.
        for text in [format!("{line}{bad}"), format!("{}{}", line.repeat(50), bad.repeat(4))] {
            let error = said(&text).expect_err("no format");
            assert!(error.contains("strobe list formats"), "{error}");
        }
        assert_eq!(said(line), Ok("msr"));
        let error = only_format(&folder.path().join("nothere.csv")).expect_err("no file");
        assert!(matches!(error, NoFormat::Unreadable(TraceError::Open { .. })), "{error}");
    }

    #[test]
    fn a_long_file_is_judged_by_its_start() {
        let line = "0,0,4096,W,0.5\n";
        let long = line.repeat(20_000);
        assert_eq!(guessed(long.as_bytes()), ["spc"]);
        assert_eq!(guessed(format!("{long}nonsense\n").as_bytes()), ["spc"]);
        let record = |at: u64| {
            let next = (at + 1).to_le_bytes();
            [&1u32.to_le_bytes()[..], &at.to_le_bytes(), &512u32.to_le_bytes(), &next].concat()
        };
        let binary: Vec<u8> = (0..5000).flat_map(record).collect();
        assert_eq!(guessed(&binary), ["oracle-general"]);
        assert_eq!(guessed(&binary[..1000 * 24]), ["oracle-general"]);
        assert!(guessed(&binary[..1000 * 24 + 1]).is_empty(), "a whole file that is cut off");
    }

    #[test]
    fn a_blktrace_file_is_not_one_of_objects() {
        let mut record = [0; 48];
        record[..4].copy_from_slice(&0x6561_7407u32.to_le_bytes());
        record[16] = 8; // sector
        record[25] = 2; // bytes
        record[28] = 7; // issued
        record[40] = 3; // CPU
        assert_eq!(guessed(&record.repeat(4000)), ["blktrace"]);
    }
}
