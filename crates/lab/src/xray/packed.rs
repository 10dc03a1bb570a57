//! Frames as text: differences, zlib, base64.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// `frames`, all of the same length, as [`super::Xray`] has them.
pub(super) fn packed<'a>(frames: impl Iterator<Item = &'a [u8]>) -> String {
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
    let mut before: Vec<u8> = Vec::new();
    for frame in frames {
        before.resize(frame.len(), 0);
        let difference: Vec<u8> =
            frame.iter().zip(&before).map(|(now, before)| now.wrapping_sub(*before)).collect();
        zlib.write_all(&difference).expect("memory takes everything");
        before.copy_from_slice(frame);
    }
    base64(&zlib.finish().expect("memory takes everything"))
}

/// RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word = group.iter().fold(0, |word, &byte| word << 8 | u32::from(byte)) << (8 * (3 - group.len()));
        for digit in 0..4 {
            let value = word >> (18 - 6 * digit) & 63;
            out.push(if digit <= group.len() { char::from(DIGITS[value as usize]) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff]), "+/8=");
    }

    #[test]
    fn what_does_not_change_takes_no_room() {
        let frame = vec![7u8; 1000];
        let one = packed(std::iter::once(&frame[..]));
        let many = packed((0..100).map(|_| &frame[..]));
        assert!(many.len() < one.len() + 200, "{} and {}", one.len(), many.len());
    }
}
