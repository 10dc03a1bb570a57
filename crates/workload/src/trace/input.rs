//! Buffered trace input of fixed size: plain, gzip or zstd, as lines or records.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::Range;

use flate2::read::MultiGzDecoder;

use super::TraceError;
use super::error::Position;
use super::problem::Problem;
use super::zstd::Zstd;

const LINE_BYTES_MAX: usize = 64 << 10;

const BUFFER_BYTES: usize = 4 * LINE_BYTES_MAX;

const FOREIGN: [(&[u8], &str); 4] =
    [(b"\xfd7zXZ\0", "xz"), (b"BZh", "bzip2"), (b"\x04\x22\x4d\x18", "lz4"), (b"PK\x03\x04", "zip")];

const GZIP: &[u8] = b"\x1f\x8b";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
/// End of the magic number of a skippable frame of zstd, which may come first.
const SKIPPABLE: &[u8] = b"\x2a\x4d\x18";

const MAGIC_BYTES_MAX: usize = 6;

pub(super) struct Input {
    name: Box<str>,
    reader: Box<dyn Read + Send>,
    buffer: Box<[u8]>,
    unread: Range<usize>,
    line: Range<usize>,
}

impl Input {
    pub(super) fn new(mut raw: Box<dyn Read + Send>, name: &str) -> Result<Self, TraceError> {
        let mut magic = [0; MAGIC_BYTES_MAX];
        let unreadable = |source| TraceError::Io { name: name.into(), position: Position::Line(1), source };
        let length = read_fully(&mut raw, &mut magic).map_err(unreadable)?;
        let start = &magic[..length];
        if let Some(&(_, kind)) = FOREIGN.iter().find(|(magic, _)| start.starts_with(magic)) {
            return Err(TraceError::Compressed { name: name.into(), kind });
        }
        let whole = io::Cursor::new(start.to_vec()).chain(raw);
        let buffered = |whole| BufReader::with_capacity(LINE_BYTES_MAX, whole);
        let reader: Box<dyn Read + Send> = if start.starts_with(GZIP) {
            Box::new(MultiGzDecoder::new(buffered(whole)))
        } else if is_zstd(start) {
            Box::new(Zstd::new(buffered(whole)).map_err(unreadable)?)
        } else {
            Box::new(whole)
        };
        Ok(Self { name: name.into(), reader, buffer: vec![0; BUFFER_BYTES].into(), unread: 0..0, line: 0..0 })
    }

    pub(super) fn open(path: &std::path::Path) -> Result<Self, TraceError> {
        let file =
            File::open(path).map_err(|source| TraceError::Open { path: path.to_path_buf(), source })?;
        Self::new(Box::new(file), &path.display().to_string())
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn fill(&mut self) -> Result<bool, Problem> {
        if self.unread.end == self.buffer.len() {
            // At the end of the buffer, move the unread bytes to its start to make space.
            self.buffer.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
        }
        loop {
            match self.reader.read(&mut self.buffer[self.unread.end..]) {
                Ok(count) => {
                    self.unread.end += count;
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(Problem::Truncated("the compressed data end early".into()));
                }
                Err(error) => return Err(Problem::Io(error)),
            }
        }
    }

    /// Next line without its end (LF or CRLF); `None` at the end of the file.
    #[inline]
    pub(super) fn next_line(&mut self) -> Result<Option<&[u8]>, Problem> {
        let mut searched = 0;
        loop {
            let fresh = &self.buffer[self.unread.start + searched..self.unread.end];
            if let Some(found) = memchr::memchr(b'\n', fresh) {
                let length = searched + found;
                return self.take_line(length, length + 1).map(Some);
            }
            searched = self.unread.len();
            if searched > LINE_BYTES_MAX {
                return self.take_line(searched, searched).map(Some);
            }
            if !self.fill()? {
                let length = self.unread.len();
                return if length == 0 { Ok(None) } else { self.take_line(length, length).map(Some) };
            }
        }
    }

    #[inline]
    fn take_line(&mut self, length: usize, consumed: usize) -> Result<&[u8], Problem> {
        self.line = self.unread.start..self.unread.start + length;
        self.unread.start += consumed;
        if length > LINE_BYTES_MAX {
            let reason = format!("the line is longer than {LINE_BYTES_MAX} bytes; is this another format?");
            return Err(Problem::Malformed(reason));
        }
        let line = &self.buffer[self.line.clone()];
        Ok(line.strip_suffix(b"\r").unwrap_or(line))
    }

    pub(super) fn line(&self) -> &[u8] {
        &self.buffer[self.line.clone()]
    }

    pub(super) fn read(&mut self, out: &mut [u8]) -> Result<usize, Problem> {
        let mut done = 0;
        while done < out.len() {
            if self.unread.is_empty() && !self.fill()? {
                break;
            }
            let count = self.unread.len().min(out.len() - done);
            let from = self.unread.start;
            out[done..done + count].copy_from_slice(&self.buffer[from..from + count]);
            self.unread.start += count;
            done += count;
        }
        Ok(done)
    }

    pub(super) fn skip(&mut self, mut count: usize) -> Result<bool, Problem> {
        while count > 0 {
            if self.unread.is_empty() && !self.fill()? {
                return Ok(false);
            }
            let step = self.unread.len().min(count);
            self.unread.start += step;
            count -= step;
        }
        Ok(true)
    }
}

fn is_zstd(start: &[u8]) -> bool {
    let skippable = |(first, rest): (&u8, &[u8])| first >> 4 == 5 && rest.starts_with(SKIPPABLE);
    start.starts_with(ZSTD) || start.split_first().is_some_and(skippable)
}

fn read_fully(reader: &mut dyn Read, out: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < out.len() {
        match reader.read(&mut out[done..]) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Trickle(Vec<u8>, bool);

    impl Read for Trickle {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if self.0.is_empty() || out.is_empty() {
                return Ok(0);
            }
            out[0] = self.0.remove(0);
            Ok(1)
        }
    }

    fn input(bytes: Vec<u8>) -> Input {
        Input::new(Box::new(io::Cursor::new(bytes)), "test").expect("plain")
    }

    #[test]
    fn lines_come_out_whole_however_small_the_reads() {
        let mut input =
            Input::new(Box::new(Trickle(b"one\r\n\n\r\nlast\r".to_vec(), false)), "t").expect("ok");
        for expected in ["one", "", "", "last"] {
            let line = input.next_line().ok().flatten().map(<[u8]>::to_vec);
            assert_eq!(line.as_deref(), Some(expected.as_bytes()));
        }
        assert!(matches!(input.next_line(), Ok(None)));
        assert!(matches!(input.next_line(), Ok(None)));
    }

    #[test]
    fn the_longest_line_passes_and_one_byte_more_does_not() {
        for (length, last) in [(0, false), (0, true), (1, false), (1, true)] {
            // Seven lines before, so that the long one is moved within the buffer.
            let mut bytes = [vec![b'a'; 50_000], vec![b'\n']].concat().repeat(7);
            bytes.extend(vec![b'x'; LINE_BYTES_MAX + length]);
            bytes.extend(if last { "" } else { "\nz\n" }.bytes());
            let mut input = input(bytes);
            for _ in 0..7 {
                assert_eq!(input.next_line().ok().flatten().map(<[u8]>::len), Some(50_000));
            }
            let line = input.next_line();
            if length == 0 {
                assert_eq!(line.ok().flatten().map(<[u8]>::len), Some(LINE_BYTES_MAX));
            } else {
                assert!(matches!(line, Err(Problem::Malformed(_))));
            }
        }
    }

    #[test]
    fn records_cross_the_end_of_the_buffer() {
        let bytes: Vec<u8> = (0..600_000u32).map(|n| (n % 251) as u8).collect();
        let mut input = input(bytes.clone());
        let mut out = Vec::new();
        let mut chunk = [0; 97];
        loop {
            let count = input.read(&mut chunk).expect("no error");
            out.extend_from_slice(&chunk[..count]);
            if count < chunk.len() {
                break;
            }
        }
        assert_eq!(out, bytes);
    }

    #[test]
    fn foreign_compression_is_named() {
        for (magic, kind) in FOREIGN {
            let bytes = [magic, b"rest"].concat();
            let error = Input::new(Box::new(io::Cursor::new(bytes)), "t.x").err().expect("refused");
            assert!(error.to_string().starts_with(&format!("trace t.x is compressed with {kind}")));
        }
    }
}
