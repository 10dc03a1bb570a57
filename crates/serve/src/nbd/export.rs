/// Maximum size of a read or write in bytes. Clients that negotiate no block sizes assume this value.
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;

/// Drive as seen by clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Export name. The empty name selects this export as well.
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
