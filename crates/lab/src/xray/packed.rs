use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;

/// Frames of equal length in the format of [`super::Xray`].
pub(super) fn packed<'a>(frames: impl Iterator<Item = &'a [u8]>) -> String {
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    let mut before: Vec<u8> = Vec::new();
    for frame in frames {
        before.resize(frame.len(), 0);
        // A cell that did not change gives a 0, and zlib compresses runs of zeros well.
        let difference: Vec<u8> =
            frame.iter().zip(&before).map(|(now, before)| now.wrapping_sub(*before)).collect();
        zlib.write_all(&difference).expect("memory takes everything");
        before.copy_from_slice(frame);
    }
    STANDARD.encode(zlib.finish().expect("memory takes everything"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_change_takes_no_room() {
        let frame = vec![7u8; 1000];
        let one = packed(std::iter::once(&frame[..]));
        let many = packed((0..100).map(|_| &frame[..]));
        assert!(many.len() < one.len() + 200, "{} and {}", one.len(), many.len());
    }
}
