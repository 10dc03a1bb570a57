//! Control and metrics sockets: each request gets a text as its answer.

use std::io::{self, IoSlice};
use std::time::Duration;

use super::listen::Stream;

/// Maximum size of a command, or of the head of an HTTP request.
const QUESTION_BYTES_MAX: usize = 8 << 10;
/// Deadline for an HTTP client's request and the receipt of its answer.
const IDLE_MAX: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Commands, one per line.
    Control,
    /// One HTTP request.
    Metrics,
}

#[derive(Debug)]
pub(super) struct LineClient {
    pub(super) stream: Stream,
    pub(super) form: Form,
    input: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    last: Duration,
    is_gone: bool,
}

impl LineClient {
    pub(super) fn new(stream: Stream, form: Form, now: Duration) -> Self {
        Self { stream, form, input: Vec::new(), output: Vec::new(), sent: 0, last: now, is_gone: false }
    }

    pub(super) fn has_output(&self) -> bool {
        self.sent < self.output.len()
    }

    /// True if a complete command is buffered. A poll of the socket would not announce it.
    pub(super) fn has_question(&self) -> bool {
        self.form == Form::Control && !self.has_output() && self.input.contains(&b'\n')
    }

    pub(super) fn is_over(&self, now: Duration) -> bool {
        // Only the owner can connect to the control socket, so its clients have no deadline.
        self.is_gone && !self.has_question()
            || self.form == Form::Metrics && now.saturating_sub(self.last) > IDLE_MAX
    }

    /// Returns the next request, without its terminator.
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

    pub(super) fn answer(&mut self, answer: &str) {
        (self.output, self.sent) = (answer.as_bytes().to_vec(), 0);
    }

    /// Sends output until the socket is full. An HTTP client is done once its answer is sent.
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
