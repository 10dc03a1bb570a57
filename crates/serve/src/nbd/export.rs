/// Maximum size of a read or write in bytes, expected by clients that negotiate no block sizes.
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;

/// Drive as seen by clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Export name. The empty name selects it as well.
    pub name: String,
    /// Human-readable description.
    pub description: String,
    /// Size in sectors of 512 bytes.
    pub sectors: u64,
    /// Preferred size and alignment of requests in bytes: a mapping unit.
    pub block_bytes: u32,
    /// True if writes are refused.
    pub read_only: bool,
}
