//! What a guest says.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use strobe_linux::Stream;

use super::camera::Scene;

/// The inside of a mutex, whoever panicked with it.
pub(super) fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a guest has said.
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
            Stream::Control => {}
        }
    }

    /// The last lines of what programs have said.
    pub(super) fn tail(&self) -> String {
        let text = [&self.output[..], &self.errors[..]].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }
}

/// Adds whole lines of the program's to the scene.
pub(super) struct Listener {
    scene: Arc<Mutex<Scene>>,
    begun: Vec<u8>,
}

impl Listener {
    /// One that writes into `scene`.
    pub(super) fn new(scene: &Arc<Mutex<Scene>>) -> Self {
        Self { scene: Arc::clone(scene), begun: Vec::new() }
    }

    pub(super) fn hear(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                b'\n' => {
                    let line = String::from_utf8_lossy(&std::mem::take(&mut self.begun)).into_owned();
                    let mut scene = lock(&self.scene);
                    let now = scene.now;
                    scene.lines.push((now, line));
                }
                _ => self.begun.push(byte),
            }
        }
    }
}
