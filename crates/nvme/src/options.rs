use strobe_types::defaults;

defaults! {
    /// Controller properties.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Options {
        /// Maximum ranges of one deallocation, 1 to 256. 0 disables deallocation. The drive may have a lower
        /// limit.
        pub discard_segments: u32 = 256;
        /// True to offer Copy within the drive.
        pub copy: bool = true;
        /// True to enable the volatile write cache. The host can change this.
        pub write_cache: bool = true;
        /// True to refuse commands that change data.
        pub read_only: bool = false;
        /// Number of I/O queues.
        pub io_queues: u16 = 64;
        /// Index of the drive on its host, from 0. Serial numbers and names depend on it.
        pub number: u8 = 0;
        /// Fabric identity; `None` on PCI.
        pub fabrics: Option<Fabrics> = None;
    }
}

/// Identity of a fabrics controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fabrics {
    /// Controller identifier.
    pub controller: u16,
    /// NVMe qualified name of the subsystem.
    pub subsystem: String,
    /// In-capsule data size of I/O queues in bytes, a multiple of 16.
    pub capsule_data_bytes: u32,
    /// True for a discovery controller, which has no namespaces.
    pub is_discovery: bool,
}
