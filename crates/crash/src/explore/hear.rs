use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use strobe_linux::Stream;
use strobe_linux::command::LinuxRunError;

use super::snapshot::{Printed, RunLog};

pub(super) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

const TAIL_LINES: usize = 40;

#[derive(Default)]
pub(super) struct Said {
    output: Vec<u8>,
    errors: Vec<u8>,
    pub(super) kernel: Vec<u8>,
}

impl Said {
    pub(super) fn hear(&mut self, stream: Stream, bytes: &[u8]) {
        match stream {
            Stream::Output => self.output.extend_from_slice(bytes),
            Stream::Error => self.errors.extend_from_slice(bytes),
            Stream::Kernel => self.kernel.extend_from_slice(bytes),
            Stream::Control | Stream::Files | Stream::Changes => {}
        }
    }

    pub(super) fn explained(&self, error: LinuxRunError) -> LinuxRunError {
        match (error, self.tail()) {
            (LinuxRunError::Step(reason), said) if !said.is_empty() => {
                LinuxRunError::Step(format!("{}\n{said}", reason.trim_end()))
            }
            (error, _) => error,
        }
    }

    pub(super) fn tail(&self) -> String {
        let text = [&self.output[..], &self.errors[..]].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }
}

pub(super) struct Listener {
    log: Arc<Mutex<RunLog>>,
    begun: Vec<u8>,
}

impl Listener {
    pub(super) fn new(log: &Arc<Mutex<RunLog>>) -> Self {
        Self { log: Arc::clone(log), begun: Vec::new() }
    }

    pub(super) fn hear(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                b'\n' => {
                    let line = String::from_utf8_lossy(&std::mem::take(&mut self.begun)).into_owned();
                    let mut log = lock(&self.log);
                    // The number of started operations is the line's position between the cuts.
                    let operations = log.operations;
                    log.lines.push(Printed { text: line, operations });
                }
                _ => self.begun.push(byte),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_fails_is_told_with_what_it_has_said() {
        let mut said = Said::default();
        let step = || LinuxRunError::Step("sh -e -c ./before.sh: exit code 127\n".to_owned());
        assert_eq!(said.explained(step()).to_string(), step().to_string());
        said.hear(Stream::Error, b"sh: 1: ./before.sh: not found\n");
        let text = said.explained(step()).to_string();
        assert!(text.ends_with("exit code 127\nsh: 1: ./before.sh: not found"), "{text}");
    }
}
