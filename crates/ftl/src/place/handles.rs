//! Streams that the host chooses: by placement handles, as with FDP, or by hints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_types::{Lpn, State};

use super::{CopyContext, DataTag, Hint, Placement, StreamId, WriteContext, by_state};

/// Isolation of placement handles when data is relocated (NVMe TP4146).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Relocated units of all handles share a stream (initially isolated).
    #[default]
    Initial,
    /// Relocated units keep to a stream of their handle (persistently isolated), but for those that wear levelling moves.
    Persistent,
}

/// One stream of host writes for each value of a part of their tag. Relocated units go to one more stream, or to one
/// more for each of these.
#[derive(Clone, Copy, Debug, State)]
pub(super) struct ByTag {
    #[state(skip)]
    count: u8,
    #[state(skip)]
    isolation: Isolation,
    /// Numbers the values of the part that counts.
    #[state(skip)]
    value: fn(DataTag) -> u16,
    #[state(skip)]
    relevant: fn(DataTag) -> DataTag,
}

impl ByTag {
    /// Streams by placement handle.
    pub(super) fn handles(count: u8, isolation: Isolation) -> Self {
        Self { count, isolation, value: |tag| tag.handle, relevant: |tag| DataTag::placed(tag.handle) }
    }

    /// One stream for metadata, and one for other data.
    pub(super) fn hints() -> Self {
        let value = |tag: DataTag| u16::from(tag.hint == Hint::Metadata);
        Self { count: 2, isolation: Isolation::Initial, value, relevant: |tag| tag.hint.into() }
    }
}

impl Placement for ByTag {
    fn shares_pages(&self) -> bool {
        false
    }

    fn relevant(&self, tag: DataTag) -> DataTag {
        (self.relevant)(tag)
    }

    fn goes_by_tag(&self) -> bool {
        true
    }

    fn for_write(&mut self, _: Lpn, context: WriteContext, _: u64) -> StreamId {
        let value = (self.value)(context.tag);
        debug_assert!(value < u16::from(self.count), "handles are checked where commands come in");
        StreamId::new((value as u8).min(self.count - 1))
    }

    fn moves_alike(&self) -> bool {
        self.isolation == Isolation::Initial
    }

    fn for_copy(&mut self, _: Lpn, from: &CopyContext) -> StreamId {
        let own = match self.isolation {
            Isolation::Initial => 0,
            Isolation::Persistent => from.stream.map_or(0, |stream| stream.get() % self.count),
        };
        StreamId::new(self.count + own)
    }

    by_state!();
}
