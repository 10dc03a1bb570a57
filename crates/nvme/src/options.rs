//! Properties of a controller.

use strobe_types::defaults;

defaults! {
    /// Properties of a controller.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Options {
        /// Ranges that one deallocation may have, 1 to 256; 0: none at all. The drive may take fewer.
        pub discard_segments: u32 = 256;
        /// True to offer copies within the device.
        pub copy: bool = true;
        /// True to let writes wait in a volatile cache until the host flushes. The host can change this.
        pub write_cache: bool = true;
        /// True to refuse what changes data.
        pub read_only: bool = false;
        /// I/O queues.
        pub io_queues: u16 = 64;
        /// Number of the drive among those of its host, from 0: serial numbers and names differ by it.
        pub number: u8 = 0;
        /// Identity on a fabric; `None` on PCI.
        pub fabrics: Option<Fabrics> = None;
    }
}

/// Identity of a controller of a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fabrics {
    /// Controller identifier.
    pub controller: u16,
    /// NVMe qualified name of the subsystem.
    pub subsystem: String,
    /// Bytes of data that a command of an I/O queue may carry along, a multiple of 16.
    pub capsule_data_bytes: u32,
    /// True of a discovery controller, which has no namespaces.
    pub is_discovery: bool,
}
