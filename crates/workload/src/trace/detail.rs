//! Details of a record beyond its operation and range.

/// More than an operation and a range can say. Most formats know of nothing but plain requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// Nothing.
    #[default]
    Plain,
    /// The write is of metadata of a file system.
    Metadata,
    /// A copy by the drive: the range, whose operation is a read, goes to this byte of the device. Ranges that follow with
    /// [`Detail::More`] go behind it, one after the other.
    CopyTo(u64),
    /// Another range of the command of the record before, which is a trim or a copy.
    More,
}
