//! The formats that a file looks like, for messages about a wrong one.

use std::io::Cursor;
use std::path::Path;

use super::input::Input;
use super::line::Line;
use super::problem::Problem;
use super::{FORMATS, Format, TraceError, TraceOptions, oracle_general, per_cpu};

/// Bytes at the start of a file that decide.
const LOOKED_AT_BYTES: usize = 64 << 10;

/// The formats that everything at the start of the trace at `path` is in. Several formats have lines of one shape, so
/// there may be more than one; none if it is a trace of none.
pub fn guess(path: &Path) -> Result<Vec<&'static Format>, TraceError> {
    let mut input = Input::open(&per_cpu::files(path)[0])?;
    let mut start = vec![0; LOOKED_AT_BYTES];
    // Damaged compressed data look like nothing.
    let length = input.read(&mut start).unwrap_or(0);
    start.truncate(length);
    let is_whole = length < LOOKED_AT_BYTES;
    let mut fitting: Vec<&'static Format> =
        FORMATS.iter().filter(|format| fits(format, &start, is_whole)).collect();
    // It has nothing to recognise it by, so records of others may pass for its own.
    if fitting.len() > 1 {
        fitting.retain(|format| format.name != oracle_general::FORMAT.name);
    }
    Ok(fitting)
}

/// The only format that the start of the trace at `path` is in, or words on why there is none to name. Formats of one
/// shape differ in units and op codes: of several that fit, somebody has to name one.
pub fn only_format(path: &Path) -> Result<&'static str, String> {
    // A pipe can be read only once.
    let fitting = if path.is_file() { guess(path).unwrap_or_default() } else { Vec::new() };
    let names: Vec<&'static str> = fitting.iter().map(|format| format.name).collect();
    match names[..] {
        [] => Err("`strobe list formats` has the names".to_owned()),
        [name] => Ok(name),
        [ref others @ .., last] => Err(format!("{} may be {} or {last}", path.display(), others.join(", "))),
    }
}

/// True if `start` has a record and nothing but records of `format`. The last line or record may be cut off unless the
/// file `is_whole`.
fn fits(format: &Format, start: &[u8], is_whole: bool) -> bool {
    let last_line = if is_whole { None } else { memchr::memrchr(b'\n', start) };
    let text = last_line.map_or(start, |end| &start[..end]);
    // A line is never cut off in the eyes of its format, and a record always is.
    [text, start].into_iter().take(if last_line.is_some() { 2 } else { 1 }).any(|bytes| {
        let Ok(input) = Input::new(Box::new(Cursor::new(bytes.to_vec())), "") else { return false };
        let mut source = format.decoder(input, Vec::new(), &TraceOptions::default());
        let mut records = 0;
        loop {
            match source.next() {
                Ok(Some(Line::Nothing)) => {}
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
