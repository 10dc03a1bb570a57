//! The export: size, limits, abilities.

/// Most bytes of a read or a write, as clients expect that negotiate no block sizes.
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;

/// The drive as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Its name; the empty name stands for it as well.
    pub name: String,
    /// A text for people.
    pub description: String,
    /// Its sectors of 512 bytes.
    pub sectors: u64,
    /// Preferred size and alignment of requests in bytes: a mapping unit.
    pub block_bytes: u32,
    /// True if writes are refused.
    pub read_only: bool,
}
