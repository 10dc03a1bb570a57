//! Decompression of zstd.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Reader of zstd data of any number of frames.
pub(super) struct Zstd<R> {
    source: R,
    frame: FrameDecoder,
}

impl<R: BufRead> Zstd<R> {
    /// Reads the header of the first frame.
    pub(super) fn new(source: R) -> io::Result<Self> {
        let mut zstd = Self { source, frame: FrameDecoder::new() };
        zstd.begin_frame()?;
        Ok(zstd)
    }

    /// Begins the next frame with data; false at the end.
    fn begin_frame(&mut self) -> io::Result<bool> {
        loop {
            if self.source.fill_buf()?.is_empty() {
                return Ok(false);
            }
            match self.frame.init(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(&mut self.source.by_ref().take(length.into()), &mut io::sink())?;
                }
                Err(error) => return Err(self.failed(error)),
            }
        }
    }

    /// The error of damaged data, or of data that end early.
    fn failed(&mut self, error: FrameDecoderError) -> io::Error {
        match self.source.fill_buf() {
            Ok([]) => io::Error::new(io::ErrorKind::UnexpectedEof, error),
            Ok(_) => {
                let what = format!("the zstd data are damaged, fetch or copy the file again ({error})");
                io::Error::new(io::ErrorKind::InvalidData, what)
            }
            Err(error) => error,
        }
    }

    fn check(&self) -> io::Result<()> {
        let recorded = self.frame.get_checksum_from_data();
        if recorded.is_some() && recorded != self.frame.get_calculated_checksum() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the zstd data have a wrong checksum, fetch or copy the file again",
            ));
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.frame.read(out)?;
            if count > 0 || out.is_empty() {
                return Ok(count);
            }
            if self.frame.is_finished() {
                self.check()?;
                if !self.begin_frame()? {
                    return Ok(0);
                }
            } else if let Err(error) =
                self.frame.decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
            {
                return Err(self.failed(error));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn decompressed(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        Zstd::new(Cursor::new(bytes))?.read_to_end(&mut out).map(|_| out)
    }

    fn compressed(text: &[u8]) -> Vec<u8> {
        compress_to_vec(text, CompressionLevel::Fastest)
    }

    #[test]
    fn frames_are_joined_and_skippable_ones_left_out() {
        let text: Vec<u8> = (0..300_000u32).flat_map(|n| (n / 7 % 251).to_le_bytes()).collect();
        let skippable = [&[0x50, 0x2a, 0x4d, 0x18][..], &3u32.to_le_bytes(), b"abc"].concat();
        let bytes = [&skippable, &compressed(&text), &skippable, &compressed(b""), &compressed(b"end")]
            .map(Vec::as_slice)
            .concat();
        assert!(bytes.len() < text.len() / 2);
        assert_eq!(decompressed(&bytes).expect("intact"), [&text[..], b"end"].concat());
    }

    #[test]
    fn damage_and_early_ends_are_errors() {
        let text: Vec<u8> = (0..100_000u32).flat_map(|n| n.wrapping_mul(n).to_le_bytes()).collect();
        let bytes = compressed(&text);
        for length in (1..bytes.len()).step_by(1 + bytes.len() / 97) {
            let error = decompressed(&bytes[..length]).expect_err("cut off");
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{length}: {error}");
        }
        for at in (4..bytes.len()).step_by(1 + bytes.len() / 199) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            // Some bits have no meaning.
            assert!(decompressed(&damaged).map_or(true, |out| out == text), "{at}");
        }
    }
}
