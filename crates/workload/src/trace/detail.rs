/// Detail beyond operation and range; most formats have only plain requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// No detail.
    #[default]
    Plain,
    /// Write of file system metadata.
    Metadata,
    /// Copy by the drive. The range of the record, a read, is the source; this byte of the device begins the
    /// destination. Ranges of following [`Detail::More`] records are appended in order.
    CopyTo(u64),
    /// Another range of the preceding trim or copy.
    More,
}
