//! The streams of writes, and what goes to which.

use std::ops::{Index, IndexMut};

use strobe_types::Geometry;

use crate::frontier::Frontier;

/// The stream of host writes.
pub(super) const HOST: usize = 0;

/// Which stream serves which purpose; several may share one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Roles {
    /// Valid units of victims that are not known to be cold.
    pub(super) hot: usize,
    /// Those that are.
    pub(super) cold: usize,
    /// Units moved by wear levelling.
    pub(super) wear: usize,
    /// Translation pages, which share with nothing; no stream without demand paging.
    pub(super) translation: usize,
    /// How many streams there are.
    pub(super) streams: usize,
}

/// The open blocks of each stream.
#[derive(Clone, Debug)]
pub(super) struct Streams {
    pub(super) roles: Roles,
    frontiers: Vec<Frontier>,
}

impl Streams {
    pub(super) fn new(roles: Roles, geometry: &Geometry) -> Self {
        Self { roles, frontiers: vec![Frontier::new(geometry); roles.streams] }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Frontier> {
        self.frontiers.iter()
    }

    /// A stream by a number that may be wrong.
    pub(super) fn get_mut(&mut self, stream: usize) -> Option<&mut Frontier> {
        self.frontiers.get_mut(stream)
    }

    /// Whether the host has an open block to go on with.
    pub(super) fn host_has_room(&self) -> bool {
        self[HOST].next_pages().is_some()
    }
}

impl Index<usize> for Streams {
    type Output = Frontier;

    #[inline(always)]
    fn index(&self, stream: usize) -> &Frontier {
        &self.frontiers[stream]
    }
}

impl IndexMut<usize> for Streams {
    #[inline(always)]
    fn index_mut(&mut self, stream: usize) -> &mut Frontier {
        &mut self.frontiers[stream]
    }
}
