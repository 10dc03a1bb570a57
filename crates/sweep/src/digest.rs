//! Digests as text.

pub(crate) fn hex(digest: &[u8], bytes: usize) -> String {
    digest[..bytes].iter().map(|byte| format!("{byte:02x}")).collect()
}
