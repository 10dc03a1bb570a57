/// Detail beyond operation and range; most formats have only plain requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// No detail.
    #[default]
    Plain,
    /// Write of file system metadata.
    Metadata,
    /// Copy by the drive: the range, a read, is copied to this byte of the device. Following [`Detail::More`]
    /// ranges go after it in order.
    CopyTo(u64),
    /// Another range of the previous record's trim or copy.
    More,
}
