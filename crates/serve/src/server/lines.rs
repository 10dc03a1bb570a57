//! People and programs that ask about the server: a line in, a text out.

use std::io::{self, IoSlice};
use std::time::Duration;

use super::listen::Stream;

/// Most bytes of a question, or of the head of an HTTP request.
const QUESTION_BYTES_MAX: usize = 8 << 10;
/// Time in which an HTTP client must ask and take its answer. Commands come from the owner, at any time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Form of questions and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A line for each, as often as wanted.
    Control,
    /// One HTTP request.
    Metrics,
}

/// One who asks.
#[derive(Debug)]
pub(super) struct Asker {
    pub(super) stream: Stream,
    pub(super) form: Form,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    last: Duration,
    is_gone: bool,
}

impl Asker {
    pub(super) fn new(stream: Stream, form: Form, now: Duration) -> Self {
        Self { stream, form, input: Vec::new(), output: Vec::new(), sent: 0, last: now, is_gone: false }
    }

    /// True if an answer waits to be sent.
    pub(super) fn has_output(&self) -> bool {
        self.sent < self.output.len()
    }

    /// True if a command has come and not been taken, which no further byte may announce.
    pub(super) fn has_question(&self) -> bool {
        self.form == Form::Control && !self.has_output() && self.input.contains(&b'\n')
    }

    pub(super) fn is_over(&self, now: Duration) -> bool {
        self.is_gone && !self.has_question()
            || self.form == Form::Metrics && now.saturating_sub(self.last) > PATIENCE
    }

    /// Takes what has come and returns the next question, without its end.
    pub(super) fn question(&mut self, now: Duration) -> Option<String> {
        if self.has_output() {
            return None;
        }
        let mut buffer = [0; 2048];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.is_gone = true,
            Ok(count) => self.input.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => self.is_gone = true,
        }
        let end: &[u8] = if self.form == Form::Control { b"\n" } else { b"\r\n\r\n" };
        let Some(at) = self.input.windows(end.len()).position(|bytes| bytes == end) else {
            self.is_gone |= self.input.len() > QUESTION_BYTES_MAX;
            return None;
        };
        self.last = now;
        let question = String::from_utf8_lossy(&self.input[..at]).into_owned();
        self.input.drain(..at + end.len());
        Some(question)
    }

    /// Begins to send `answer`.
    pub(super) fn answer(&mut self, answer: &str) {
        (self.output, self.sent) = (answer.as_bytes().to_vec(), 0);
    }

    /// Sends what the socket takes; an HTTP client is then done.
    pub(super) fn send(&mut self) {
        while self.has_output() {
            match self.stream.write(&[IoSlice::new(&self.output[self.sent..])]) {
                Ok(0) => self.is_gone = true,
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.is_gone = true,
            }
            if self.is_gone {
                return;
            }
        }
        self.is_gone |= self.form == Form::Metrics && !self.output.is_empty();
    }
}
