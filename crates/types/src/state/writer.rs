use std::io::Write;

use super::StateError;

const BUFFER_BYTES: usize = 1 << 20;

/// Writes states through a buffer of 1 MiB. After an error, later writes are dropped; [`StateWriter::finish`]
/// returns the error.
pub struct StateWriter<'a> {
    out: &'a mut dyn Write,
    buffer: Vec<u8>,
    failed: Option<StateError>,
}

impl<'a> StateWriter<'a> {
    /// A writer to `out`.
    pub fn new(out: &'a mut dyn Write) -> Self {
        Self { out, buffer: Vec::with_capacity(BUFFER_BYTES), failed: None }
    }

    /// Writes `bytes`.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.hand_on(bytes);
        } else {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// Records that the state cannot be saved, because of `why`.
    pub fn refuse(&mut self, why: &'static str) {
        self.failed.get_or_insert(StateError::Unsaved(why));
    }

    /// True if a write has failed. Further writes are useless.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Flushes the buffer and returns the first error, if any.
    pub fn finish(mut self) -> Result<(), StateError> {
        self.hand_on(&[]);
        self.failed.map_or(Ok(()), Err)
    }

    #[cold]
    fn hand_on(&mut self, more: &[u8]) {
        for bytes in [&self.buffer[..], more] {
            if self.failed.is_none()
                && let Err(error) = self.out.write_all(bytes)
            {
                self.failed = Some(error.into());
            }
        }
        self.buffer.clear();
    }
}
