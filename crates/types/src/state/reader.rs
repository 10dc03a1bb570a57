use std::io::Read;

use super::StateError;

const BUFFER_BYTES: usize = 1 << 20;

/// Reads states. The reader knows the maximum length of the input, so a forged list length cannot cause a
/// larger allocation.
pub struct StateReader<'a> {
    from: &'a mut dyn Read,
    /// Maximum number of bytes in the source that are not in `buffer` yet.
    beyond: u64,
    buffer: Vec<u8>,
    at: usize,
}

impl<'a> StateReader<'a> {
    /// A reader of `from`, which has at most `bytes` bytes.
    pub fn new(from: &'a mut dyn Read, bytes: u64) -> Self {
        Self { from, beyond: bytes, buffer: Vec::new(), at: 0 }
    }

    /// Fills `out`.
    #[inline]
    pub fn take(&mut self, out: &mut [u8]) -> Result<(), StateError> {
        let end = self.at + out.len();
        if let Some(bytes) = self.buffer.get(self.at..end) {
            out.copy_from_slice(bytes);
            self.at = end;
            return Ok(());
        }
        self.take_beyond(out)
    }

    /// Reads the length of a list whose elements take at least `least_bytes` bytes each.
    #[inline]
    pub fn length(&mut self, least_bytes: u64) -> Result<usize, StateError> {
        let mut bytes = [0; 8];
        self.take(&mut bytes)?;
        let length = u64::from_le_bytes(bytes);
        if length.saturating_mul(least_bytes) > self.beyond + (self.buffer.len() - self.at) as u64 {
            return Err(StateError::Short);
        }
        usize::try_from(length).map_err(|_| StateError::Short)
    }

    /// Skips the rest of the input.
    pub fn skip_rest(&mut self) -> Result<(), StateError> {
        while !self.check_end()? {
            self.at = self.buffer.len();
        }
        Ok(())
    }

    /// Fetches more input if the buffer is empty. Returns true if all bytes have been read.
    pub fn check_end(&mut self) -> Result<bool, StateError> {
        if self.at == self.buffer.len() {
            self.fetch()?;
        }
        Ok(self.buffer.is_empty())
    }

    #[cold]
    fn take_beyond(&mut self, mut out: &mut [u8]) -> Result<(), StateError> {
        while !out.is_empty() {
            if self.at == self.buffer.len() {
                self.fetch()?;
                if self.buffer.is_empty() {
                    return Err(StateError::Short);
                }
            }
            let count = out.len().min(self.buffer.len() - self.at);
            let (now, later) = out.split_at_mut(count);
            now.copy_from_slice(&self.buffer[self.at..self.at + count]);
            self.at += count;
            out = later;
        }
        Ok(())
    }

    fn fetch(&mut self) -> Result<(), StateError> {
        self.at = 0;
        // Ask for one byte more than the maximum, to detect input beyond it.
        let most = usize::try_from(self.beyond).unwrap_or(usize::MAX).saturating_add(1);
        self.buffer.resize(most.min(BUFFER_BYTES), 0);
        let count = loop {
            match self.from.read(&mut self.buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Ok(count) => break count,
                Err(error) => {
                    self.buffer.clear();
                    return Err(error.into());
                }
            }
        };
        self.buffer.truncate(count);
        self.beyond = self.beyond.saturating_sub(count as u64);
        Ok(())
    }
}
