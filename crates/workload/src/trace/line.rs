//! What a format makes of a line, and the machinery all text formats share.

use std::io;

use strobe_types::Op;

use super::SkipReason;
use super::device::Device;
use super::error::{Position, printable};
use super::input::Input;

/// Why a line is malformed, with the cure if there is one. The file, the line number and the
/// text are added by the reader.
pub(super) type Reason = String;

/// What one line (or binary record) says.
#[derive(Debug)]
pub(super) enum Line<'a> {
    /// A request.
    Record {
        /// Nanoseconds since any fixed moment.
        time_ns: u64,
        op: Op,
        /// First byte.
        offset: u64,
        bytes: u64,
        device: Device<'a>,
    },
    /// Deliberately ignored.
    Skip(SkipReason),
    /// Not part of the data: blank, a comment, a header.
    Nothing,
}

/// Why a source cannot go on.
#[derive(Debug)]
pub(super) enum Problem {
    Io(io::Error),
    Malformed(Reason),
    Truncated(Reason),
}

/// A trace being decoded. After an error it is not asked again.
pub(super) trait Source: Send {
    /// Decodes the next line or record, `None` at the end.
    fn next(&mut self) -> Result<Option<Line<'_>>, Problem>;

    /// Where the last call of `next` was.
    fn position(&self) -> Position;

    /// What the last call of `next` was about, printable.
    fn text(&self) -> String;
}

/// A text trace: one function per line. Blank lines and lines that start with `#` are left out.
pub(super) fn open_lines<F>(input: Input, parse: F) -> Box<dyn Source>
where
    F: for<'a> FnMut(&'a str) -> Result<Line<'a>, Reason> + Send + 'static,
{
    Box::new(Lines { input, parse, number: 0, comments: true })
}

/// Like [`open_lines`], but `#` has no meaning.
pub(super) fn open_lines_without_comments<F>(input: Input, parse: F) -> Box<dyn Source>
where
    F: for<'a> FnMut(&'a str) -> Result<Line<'a>, Reason> + Send + 'static,
{
    Box::new(Lines { input, parse, number: 0, comments: false })
}

/// Archives are the common reason for NUL in a text trace.
#[cold]
fn with_hint(reason: Reason, text: &str) -> Reason {
    if text.contains('\0') {
        return "the line holds NUL characters; if this is a tar archive, unpack it first".into();
    }
    reason
}

struct Lines<F> {
    input: Input,
    parse: F,
    number: u64,
    comments: bool,
}

impl<F> Source for Lines<F>
where
    F: for<'a> FnMut(&'a str) -> Result<Line<'a>, Reason> + Send,
{
    fn next(&mut self) -> Result<Option<Line<'_>>, Problem> {
        self.number += 1;
        let Some(bytes) = self.input.next_line()? else { return Ok(None) };
        let text = bytes.trim_ascii();
        if text.is_empty() || (self.comments && text[0] == b'#') {
            return Ok(Some(Line::Nothing));
        }
        let text = std::str::from_utf8(text).map_err(|_| {
            Problem::Malformed("this is not text; a binary blktrace file needs `--format blktrace`".into())
        })?;
        (self.parse)(text).map(Some).map_err(|reason| Problem::Malformed(with_hint(reason, text)))
    }

    fn position(&self) -> Position {
        Position::Line(self.number)
    }

    fn text(&self) -> String {
        printable(self.input.line().trim_ascii())
    }
}
