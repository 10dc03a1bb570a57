//! Two regions (2R: Kang, Choi, Oh & Lee, PVLDB 2020): the host fills normal blocks, relocation cold ones.
//!
//! 1. The host has stream 0, relocated units have stream 1.
//! 2. Before opening a new block, host writes continue in a block that collection left partly filled, which
//!    then counts as normal.
//!
//! The victim policies are [`TwoRegions`](crate::gc::TwoRegions) and
//! [`SecondChance`](crate::gc::SecondChance).

use strobe_types::{Lpn, State};

use super::{CopyContext, Placement, StreamId, by_state};

const COLD: StreamId = StreamId::new(1);

#[derive(Clone, Copy, Debug, State)]
pub(super) struct TwoR;

impl Placement for TwoR {
    fn is_cold(&self, stream: StreamId) -> bool {
        stream == COLD
    }

    fn hands_over(&self) -> bool {
        true
    }

    fn moves_alike(&self) -> bool {
        true
    }

    fn for_copy(&mut self, _: Lpn, _: &CopyContext) -> StreamId {
        COLD
    }

    by_state!();
}
