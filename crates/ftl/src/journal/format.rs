//! Layout of a page of the map's log, byte by byte; little-endian throughout.
//!
//! ```text
//! 0   magic "STRBMAP\x01"      40  number of this page: within its epoch, or its segment
//! 8   CRC-32C of all behind it 44  pages of the epoch, or segments of the checkpoint
//! 12  kind: 0 journal, 1 map   48  clock: ticks
//! 16  log sequence number      56  clock: programs
//! 24  base                     64  clock: host units written
//! 32  epoch                    72  blocks of the log's region
//!                              76  bytes of content, which follow
//! ```
//!
//! A journal page carries [`Record`]s, a map page a checkpoint segment of four bytes per entry. Input is not
//! trusted: bytes that do not decode are not a page.

/// Words per virtual map entry: its packed flash unit, 0 if free, and its owners.
pub(crate) const WORDS_PER_ENTRY: u64 = 3;

pub(crate) const HEADER: usize = 80;
const MAGIC: [u8; 8] = *b"STRBMAP\x01";
const CHECKED: usize = 12;

/// Counters of the drive, kept with its tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// Current tick of [`gc`](crate::gc); 1 in a log of trims.
    pub tick: u64,
    /// Sequence number of the next program.
    pub sequence: u64,
    /// Host units written.
    pub host_units: u64,
}

/// A page of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPage {
    /// Log sequence number, from 1.
    pub lsn: u64,
    /// Log sequence number where recovery begins if this is the last page: the epoch before the newest
    /// complete checkpoint, which may end with this page. 0: the drive was empty when the log began.
    pub base: u64,
    /// Epoch of a journal page, or last epoch included in a segment.
    pub epoch: u64,
    /// Number within its epoch, or of its segment.
    pub number: u32,
    /// Pages of the epoch, or segments of a checkpoint.
    pub count: u32,
    /// Counters at the time of writing.
    pub clock: Clock,
    /// Blocks in the log's region, good and bad.
    pub region: u32,
    /// Content.
    pub content: Content,
}

/// Content of a page of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Part of an epoch, valid only with all its pages.
    Journal(Vec<Record>),
    /// Words of the tables at the end of the last epoch.
    Segment(Vec<u32>),
}

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// Maps `count` logical units from `lpn` to `entry` and the following units. `entry` is a flash unit plus
    /// one, or 0.
    Map {
        /// First logical unit.
        lpn: u32,
        /// Packed map entry of the first unit.
        entry: u32,
        /// Number of consecutive units.
        count: u32,
    },
    /// A virtual map entry; its flash unit is packed like a map entry, 0 if free.
    Shared {
        /// Entry number.
        vpn: u32,
        /// Packed flash unit.
        entry: u32,
        /// Owners.
        owners: [u32; 2],
    },
    /// A block open for writing.
    Open {
        /// The stream.
        stream: u32,
        /// The lane of the stream.
        lane: u32,
        /// The block.
        block: u32,
        /// Pages programmed when the epoch ended.
        pages: u32,
    },
    /// A block to retire once it is empty.
    Retiring {
        /// The block.
        block: u32,
    },
}

impl Record {
    pub(crate) const MAX_BYTES: usize = 17;

    fn put(self, out: &mut Vec<u8>) {
        let mut tagged = |tag: u8, words: &[u32]| {
            out.push(tag);
            words.iter().for_each(|word| out.extend(word.to_le_bytes()));
        };
        match self {
            Record::Map { lpn, entry, count } => tagged(0, &[lpn, entry, count]),
            Record::Shared { vpn, entry, owners } => tagged(1, &[vpn, entry, owners[0], owners[1]]),
            Record::Open { stream, lane, block, pages } => tagged(2, &[stream, lane, block, pages]),
            Record::Retiring { block } => tagged(3, &[block]),
        }
    }

    fn get(from: &mut Reader<'_>) -> Option<Self> {
        Some(match from.byte()? {
            0 => Record::Map { lpn: from.word()?, entry: from.word()?, count: from.word()? },
            1 => Record::Shared {
                vpn: from.word()?,
                entry: from.word()?,
                owners: [from.word()?, from.word()?],
            },
            2 => Record::Open {
                stream: from.word()?,
                lane: from.word()?,
                block: from.word()?,
                pages: from.word()?,
            },
            3 => Record::Retiring { block: from.word()? },
            _ => return None,
        })
    }

    pub(crate) fn is_shared(&self) -> bool {
        matches!(self, Record::Shared { .. })
    }
}

impl LogPage {
    /// Returns the bytes to program.
    pub fn encode(&self) -> Vec<u8> {
        let mut content = Vec::new();
        let kind: u32 = match &self.content {
            Content::Journal(records) => {
                records.iter().for_each(|record| record.put(&mut content));
                0
            }
            Content::Segment(words) => {
                words.iter().for_each(|word| content.extend(word.to_le_bytes()));
                1
            }
        };
        let mut out = Vec::with_capacity(HEADER + content.len());
        out.extend(MAGIC);
        out.extend([0; 4]);
        out.extend(kind.to_le_bytes());
        for long in [self.lsn, self.base, self.epoch] {
            out.extend(long.to_le_bytes());
        }
        out.extend(self.number.to_le_bytes());
        out.extend(self.count.to_le_bytes());
        for long in [self.clock.tick, self.clock.sequence, self.clock.host_units] {
            out.extend(long.to_le_bytes());
        }
        out.extend(self.region.to_le_bytes());
        out.extend((content.len() as u32).to_le_bytes());
        out.extend(content);
        // The checksum covers everything behind it.
        let crc = crc32c::crc32c(&out[CHECKED..]);
        out[8..CHECKED].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Limit of valid counters: half a year at a million units a second. Policies may sum a block's ticks
    /// without overflow.
    pub(crate) const COUNTER_MAX: u64 = 1 << 44;

    /// Decodes the page at the start of `bytes`, if any; ignores the rest.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes);
        if from.take(8)? != MAGIC {
            return None;
        }
        let crc = from.word()?;
        let kind = from.word()?;
        let (lsn, base, epoch) = (from.long()?, from.long()?, from.long()?);
        let (number, count) = (from.word()?, from.word()?);
        let clock = Clock { tick: from.long()?, sequence: from.long()?, host_units: from.long()? };
        let counters = [lsn, base, epoch, clock.tick, clock.sequence, clock.host_units];
        if counters.iter().any(|&counter| counter > Self::COUNTER_MAX) || lsn == 0 || base > lsn {
            return None;
        }
        let (region, length) = (from.word()?, from.word()? as usize);
        let content = from.take(length)?;
        if crc32c::crc32c(&bytes[CHECKED..HEADER + length]) != crc {
            return None;
        }
        // The checksum matches: decode the content.
        let mut rest = Reader(content);
        let content = match kind {
            0 => {
                let mut records = Vec::new();
                while !rest.0.is_empty() {
                    records.push(Record::get(&mut rest)?);
                }
                Content::Journal(records)
            }
            1 => {
                let mut words = Vec::with_capacity(length / 4);
                while !rest.0.is_empty() {
                    words.push(rest.word()?);
                }
                Content::Segment(words)
            }
            _ => return None,
        };
        Some(Self { lsn, base, epoch, number, count, clock, region, content })
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn word(&mut self) -> Option<u32> {
        self.0.split_first_chunk().map(|(bytes, rest)| {
            self.0 = rest;
            u32::from_le_bytes(*bytes)
        })
    }

    fn long(&mut self) -> Option<u64> {
        self.0.split_first_chunk().map(|(bytes, rest)| {
            self.0 = rest;
            u64::from_le_bytes(*bytes)
        })
    }
}

pub(crate) fn paginate(records: Vec<Record>, payload: usize) -> Vec<Vec<Record>> {
    let per_page = (payload / Record::MAX_BYTES).max(1);
    if records.len() <= per_page {
        return vec![records];
    }
    records.chunks(per_page).map(<[Record]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(content: Content) -> LogPage {
        LogPage {
            lsn: 7,
            base: 3,
            epoch: 5,
            number: 0,
            count: 2,
            clock: Clock { tick: 100, sequence: 200, host_units: 300 },
            region: 6,
            content,
        }
    }

    fn journal() -> LogPage {
        page(Content::Journal(vec![
            Record::Map { lpn: 1, entry: 2, count: 3 },
            Record::Shared { vpn: 4, entry: 5, owners: [6, 7] },
            Record::Open { stream: 0, lane: 1, block: 9, pages: 2 },
            Record::Retiring { block: 11 },
        ]))
    }

    #[test]
    fn pages_come_back_as_they_were_also_with_bytes_behind_them() {
        for page in [journal(), page(Content::Segment(vec![1, 2, u32::MAX])), page(Content::Journal(vec![]))]
        {
            let mut bytes = page.encode();
            assert_eq!(LogPage::decode(&bytes).as_ref(), Some(&page));
            bytes.extend([0xff; 30]);
            assert_eq!(LogPage::decode(&bytes), Some(page));
        }
    }

    #[test]
    fn a_page_with_any_bit_changed_or_its_end_missing_is_none() {
        let bytes = journal().encode();
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(LogPage::decode(&changed), None, "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert_eq!(LogPage::decode(&bytes[..length]), None, "{length} bytes");
        }
    }
}
