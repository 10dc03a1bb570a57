//! Streams chosen by the host: by placement handle (FDP) or by hint.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_types::{Geometry, Lpn, State};

use super::{CopyContext, DataTag, Hint, Placement, StreamId, WriteContext, by_state};

/// Isolation of placement handles when data is relocated (NVMe TP4146).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Relocated units of all handles share a stream (initially isolated).
    #[default]
    Initial,
    /// Relocated units stay in a stream of their handle (persistently isolated), except those moved by wear
    /// levelling.
    Persistent,
}

/// Placement by a value of the tag: the placement handle, or the hint.
#[derive(Clone, Copy, Debug, State)]
pub(super) struct ByTag {
    #[state(skip)]
    count: u8,
    #[state(skip)]
    isolation: Isolation,
    /// Reclaim groups, each with streams for every value.
    #[state(skip)]
    groups: u8,
    #[state(skip)]
    group_blocks: u32,
    #[state(skip)]
    value: fn(DataTag) -> u16,
    #[state(skip)]
    relevant: fn(DataTag) -> DataTag,
}

impl ByTag {
    pub(super) fn handles(count: u8, isolation: Isolation, groups: u8, geometry: &Geometry) -> Self {
        let group_blocks = geometry.blocks() / u32::from(groups);
        let (value, relevant) = (|tag: DataTag| tag.handle, |tag: DataTag| DataTag::placed(tag.handle));
        Self { count, isolation, groups, group_blocks, value, relevant }
    }

    pub(super) fn hints() -> Self {
        let value = |tag: DataTag| u16::from(tag.hint == Hint::Metadata);
        let (isolation, relevant) = (Isolation::Initial, |tag: DataTag| tag.hint.into());
        Self { count: 2, isolation, groups: 1, group_blocks: u32::MAX, value, relevant }
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
        let streams = self.count * self.groups;
        debug_assert!(value < u16::from(streams), "handles are checked where commands come in");
        StreamId::new((value as u8).min(streams - 1))
    }

    fn moves_alike(&self) -> bool {
        self.isolation == Isolation::Initial && self.groups == 1
    }

    fn for_copy(&mut self, _: Lpn, from: &CopyContext) -> StreamId {
        // Relocated units stay in their group.
        let group = (from.block.get() / self.group_blocks) as u8;
        let (of_group, own) = match self.isolation {
            Isolation::Initial => (1, 0),
            Isolation::Persistent => (self.count, from.stream.map_or(0, |stream| stream.get() % self.count)),
        };
        StreamId::new(self.count * self.groups + group * of_group + own)
    }

    by_state!();
}
