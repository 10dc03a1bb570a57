//! Two regions (2R: Kang, Choi, Oh & Lee, PVLDB 2020): the host fills normal blocks, relocation cold ones.
//!
//! 1. The host has stream 0, relocated units have stream 1.
//! 2. The host goes on in a block that a collection has left partly filled, before there is another one: no block is open
//!    for relocated units for longer than a collection takes. It is a normal one from then on.
//!
//! The victims come with it: [`TwoRegions`](crate::gc::TwoRegions) and [`SecondChance`](crate::gc::SecondChance). Without
//! step 2 it is a stream of each, as SepGC has.

use strobe_types::{Lpn, State};

use super::{CopyContext, Placement, StreamId, by_state};

/// Stream of relocated units.
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
