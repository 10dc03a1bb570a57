//! Circumstances of a power cut, as lines of text.

use strobe_linux::job::Undo;
use strobe_types::SECTOR_BYTES;

use super::file_log::UnderWay;
use super::line::{FileCall, Origin};
use super::pending::{Difference, Pending, UnflushedWrite};
use super::report::{Fact, Found};
use super::source::SourceLine;
use super::unsent::UnsentData;

/// Most lines with the same label.
const LINES_MAX: usize = 4;
/// Bytes of a difference in a line.
const LINE_BYTES: usize = 16;

/// State of the program and the drive at a cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) under_way: Vec<UnderWay>,
    pub(super) unflushed: Vec<Pending>,
    pub(super) unsent: (Vec<UnsentData>, usize),
    pub(super) syncs: Vec<FileCall>,
    pub(super) last_call: Option<FileCall>,
    pub(super) undo: Vec<Undo>,
}

/// Describes the circumstances of `found`. `is_end` is true for a cut after the program's last operation.
pub(super) fn facts(found: &Found, is_end: bool) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut add = |label: &'static str, mut texts: Vec<String>, what: &str| {
        // Commands that look alike are listed once.
        let mut listed: Vec<String> = Vec::new();
        texts.retain(|text| {
            !listed.contains(text) && {
                listed.push(text.clone());
                true
            }
        });
        let more = texts.len().saturating_sub(LINES_MAX);
        texts.truncate(LINES_MAX);
        if more > 0 {
            texts.push(format!("and {more} more{what}"));
        }
        // A fact is one line.
        let line = |text: String| text.replace(char::is_control, "\u{fffd}");
        facts.extend(texts.into_iter().map(|text| Fact { label, text: line(text) }));
    };
    if found.under_way.is_empty() {
        let did = if is_end { "the program had ended" } else { "the drive worked in the background" };
        add("under way", vec![format!("no command: {did}")], "");
    }
    add("under way", found.under_way.iter().map(under_way).collect(), " commands");
    add("not sent", found.unsent.iter().map(unsent).collect(), " ranges");
    for (label, is_complete) in [("in flight", false), ("in cache", true)] {
        let of: Vec<&UnflushedWrite> =
            found.unflushed.iter().filter(|write| write.is_complete == is_complete).collect();
        add(label, unflushed(&of), " writes");
    }
    let differs = |write: &&UnflushedWrite| write.origin.kind == "file" && write.difference.is_some();
    if let Some(write) = found.unflushed.iter().find(differs)
        && let Some(difference) = &write.difference
    {
        add("written", vec![hex_line(write, difference, &difference.expected)], "");
        let text = match &*difference.found {
            "" => "cannot be read".to_owned(),
            found => hex_line(write, difference, found),
        };
        add("found", vec![text], "");
    }
    add("waiting", found.syncs.iter().map(call).collect(), " syncs");
    add("last call", found.last_call.iter().map(call).collect(), "");
    if !found.undone.is_empty() {
        let taken: Vec<String> = found.undone.iter().map(undone).collect();
        add("not synced", vec![taken.join(", ")], "");
    }
    facts
}

/// Text such as "write of 8 sectors at 66048 by jbd2/vda-8: journal".
fn under_way(of: &UnderWay) -> String {
    let mut out = match of.command {
        "flush" => "flush".to_owned(),
        name => format!("{name} of {} sectors at {}", of.sectors, of.lba),
    };
    if let Some(first) = of.origins.first() {
        out += &format!(" by {}", first.process);
    }
    let files: Vec<String> = of.origins.iter().filter_map(file).collect();
    if let Some(first) = files.first() {
        out += &format!(": {first}");
        if files.len() > 1 {
            out += &format!(" and {} more", files.len() - 1);
        }
    }
    out
}

fn file(of: &Origin) -> Option<String> {
    match (&*of.kind, &*of.path) {
        ("none", _) => None,
        ("memory", _) if of.process.starts_with("jbd2") => Some("journal".to_owned()),
        ("memory", _) => Some("journal, metadata or direct I/O".to_owned()),
        ("block", _) => Some("metadata".to_owned()),
        (_, "") => Some(format!("inode {}", of.inode)),
        (_, path) => Some(format!("{path} (inode {})", of.inode)),
    }
}

/// Data of files by range, then other data by kind. Each says how much of it is there after the cut.
fn unflushed(writes: &[&UnflushedWrite]) -> Vec<String> {
    let mut all: Vec<Data> = writes.iter().filter_map(|write| Data::of(write)).collect();
    all.sort_by_key(|data| (data.offset.is_none(), data.name.clone(), data.offset));
    let joined = all.into_iter().fold(Vec::new(), |mut joined: Vec<Data>, data| {
        match joined.last_mut() {
            Some(last) if last.is_before(&data) => {
                (last.kept, last.lost) = (last.kept + data.kept, last.lost + data.lost)
            }
            _ => joined.push(data),
        }
        joined
    });
    joined.iter().map(Data::to_string).collect()
}

/// Unflushed bytes of a range of a file, or of all other data of a kind.
struct Data {
    name: String,
    offset: Option<u64>,
    kept: u64,
    lost: u64,
}

impl Data {
    fn of(write: &UnflushedWrite) -> Option<Self> {
        let offset = write.offset.filter(|_| write.origin.kind == "file");
        let (kept, lost) = (write.kept * SECTOR_BYTES, write.lost * SECTOR_BYTES);
        Some(Self { name: file(&write.origin)?, offset, kept, lost })
    }

    /// True if `next` belongs to the same line.
    fn is_before(&self, next: &Self) -> bool {
        self.name == next.name && self.offset.map(|offset| offset + self.kept + self.lost) == next.offset
    }
}

impl std::fmt::Display for Data {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.kept + self.lost;
        write!(f, "{}, {bytes} bytes", self.name)?;
        if let Some(offset) = self.offset {
            write!(f, " at {offset}")?;
        }
        match (self.kept, self.lost) {
            (_, 0) => write!(f, ": kept"),
            (0, _) => write!(f, ": lost"),
            (_, lost) => write!(f, ": {lost} of them lost"),
        }
    }
}

/// Text such as "/config, 12 bytes at 0, by sh (call 41) at save.c:12 in put".
fn unsent(of: &UnsentData) -> String {
    let by = format!("by {} (call {})", of.call.process, of.call.number);
    format!("{}, {} bytes at {}, {by}{}", of.path, of.length, of.offset, at(of.call.source.as_ref()))
}

fn at(source: Option<&SourceLine>) -> String {
    source.map(|source| format!(" at {source}")).unwrap_or_default()
}

/// A line of a hexadecimal dump, with the offset in the file and its path.
fn hex_line(write: &UnflushedWrite, difference: &Difference, digits: &str) -> String {
    let offset = write.offset.unwrap_or(0) + difference.offset;
    let bytes: Vec<u8> = (0..digits.len() / 2)
        .take(LINE_BYTES)
        .filter_map(|index| u8::from_str_radix(digits.get(2 * index..2 * index + 2)?, 16).ok())
        .collect();
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let text: String = bytes
        .iter()
        .map(|byte| if byte.is_ascii_graphic() || *byte == b' ' { char::from(*byte) } else { '.' })
        .collect();
    format!("{offset:08x}  {}  |{text}|  {}", hex.join(" "), write.origin.path)
}

/// Text such as "rename /a to /b by mv (call 3) at save.c:12 in put".
fn call(of: &FileCall) -> String {
    let path = if of.path.is_empty() { String::new() } else { format!(" {}", of.path) };
    let to = of.to.as_ref().map(|to| format!(" to {to}")).unwrap_or_default();
    let range = match (of.offset, of.length) {
        (Some(offset), Some(length)) => format!(", {length} bytes at {offset},"),
        (Some(offset), None) => format!(" to {offset} bytes"),
        _ => String::new(),
    };
    let by = if of.process == "init" { "strobe, after the program" } else { &of.process };
    format!("{}{path}{to}{range} by {by} (call {}){}", of.call, of.number, at(of.source.as_ref()))
}

fn undone(of: &Undo) -> String {
    match of {
        Undo::Remove(path) => format!("{path} removed"),
        Undo::MoveBack { from, to } => format!("{to} renamed back to {from}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(kind: &str, path: &str, offset: u64, kept: u64, lost: u64) -> UnflushedWrite {
        let (process, kind) = ("jbd2/vda-8".to_owned(), kind.to_owned());
        UnflushedWrite {
            origin: Origin { process, kind, inode: 12, path: path.to_owned() },
            offset: Some(offset),
            lba: 0,
            sectors: kept + lost,
            is_complete: true,
            kept,
            lost,
            difference: None,
        }
    }

    #[test]
    fn ranges_of_a_file_are_joined_and_other_data_is_summed() {
        let writes = [
            write("memory", "", 0, 8, 0),
            write("file", "/a", 4096, 8, 0),
            write("memory", "", 0, 0, 2),
            write("file", "/a", 0, 0, 8),
            write("file", "/a", 9000, 1, 0),
            write("none", "", 0, 1, 0),
            write("file", "", 0, 0, 1),
        ];
        let all: Vec<&UnflushedWrite> = writes.iter().collect();
        let lines = [
            "/a (inode 12), 8192 bytes at 0: 4096 of them lost",
            "/a (inode 12), 512 bytes at 9000: kept",
            "inode 12, 512 bytes at 0: lost",
            "journal, 5120 bytes: 1024 of them lost",
        ];
        assert_eq!(unflushed(&all), lines);
    }

    #[test]
    fn calls_have_their_arguments_and_place() {
        let source = SourceLine { file: "save.c".to_owned(), line: 12, function: "put".to_owned() };
        let call_of = |name: &str, offset, length| FileCall {
            number: 3,
            call: name.to_owned(),
            path: "/a".to_owned(),
            process: "mv".to_owned(),
            offset,
            length,
            ..FileCall::default()
        };
        let rename =
            FileCall { to: Some("/b".to_owned()), source: Some(source), ..call_of("rename", None, None) };
        assert_eq!(call(&rename), "rename /a to /b by mv (call 3) at save.c:12 in put");
        assert_eq!(call(&call_of("write", Some(7), Some(5))), "write /a, 5 bytes at 7, by mv (call 3)");
        assert_eq!(call(&call_of("truncate", Some(7), None)), "truncate /a to 7 bytes by mv (call 3)");
        let init =
            FileCall { process: "init".to_owned(), path: String::new(), ..call_of("sync", None, None) };
        assert_eq!(call(&init), "sync by strobe, after the program (call 3)");
        let data = UnsentData { path: "/b".to_owned(), offset: 0, length: 5, call: rename };
        assert_eq!(unsent(&data), "/b, 5 bytes at 0, by mv (call 3) at save.c:12 in put");
    }

    #[test]
    fn a_difference_is_a_line_of_a_dump() {
        let difference = Difference { offset: 32, expected: "4142".repeat(32), found: "00ff20".to_owned() };
        let write = write("file", "/a", 4096, 0, 8);
        let line = hex_line(&write, &difference, &difference.expected);
        assert_eq!(line, format!("00001020  {}  |{}|  /a", "41 42 ".repeat(8).trim_end(), "AB".repeat(8)));
        assert_eq!(hex_line(&write, &difference, &difference.found), "00001020  00 ff 20  |.. |  /a");
    }
}
