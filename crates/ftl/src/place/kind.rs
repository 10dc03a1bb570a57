//! Placement schemes by name, and the streams of each.

use std::ops::Range;

use strobe_types::Geometry;

use super::Placement;
use super::dac::Dac;
use super::fadac::Fadac;
use super::handles::{ByTag, Isolation};
use super::hot_cold::HotCold;
use super::layout::StreamLayout;
use super::midas::Midas;
use super::sepbit::SepBit;
use super::sfs::Sfs;
use super::sorted::Sorted;
use super::two_r::TwoR;
use super::warcip::Warcip;
use crate::heat::{HeatTable, Temperature};

/// A placement scheme by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlacementKind {
    /// Host writes share one stream; so do relocated units.
    #[default]
    Single,
    /// Each victim is split at its mean temperature (CAT: Chiang & Chang 1999).
    HotCold,
    /// The units of all victims of a collection are sorted by temperature. Whole blocks of the coldest go to a stream of
    /// their own (CAPi: Hwang & Kwak 2016, §III).
    Sorted,
    /// Separation by estimated block invalidation time (SepBIT: Wang et al. 2022).
    SepBit {
        /// Streams in all, at least 3: two of the host, one of what its short-lived blocks leave, the others by age. With 3,
        /// the last takes all that is relocated (UW).
        streams: u8,
    },
    /// SepBIT's separation of relocated units, without that of host writes (GW).
    SepBitCopies {
        /// Streams in all, at least 2: one of the host, the others by age.
        streams: u8,
    },
    /// A level for each unit: up with a host write, down with a relocation (DAC: Chiang, Lee & Chang 1999).
    Dac {
        /// Streams, one for each level.
        streams: u8,
    },
    /// Streams by the order of magnitude of a unit's writes less its relocations (FADaC: Kremer & Brinkmann 2019).
    Fadac {
        /// Streams, one for each power of ten.
        streams: u8,
    },
    /// Clusters of rewrite intervals (WARCIP: Yang, Pei & Yang 2019).
    Warcip {
        /// Streams in all, at least 2: one of relocated units, the others clusters of host writes.
        streams: u8,
    },
    /// Clusters of the hotness of blocks (SFS: Min et al. 2012).
    Sfs {
        /// Streams, one for each cluster.
        streams: u8,
    },
    /// A hot stream, and a chain of groups that units move along with each relocation. Their number and sizes follow the
    /// writes (MiDAS: Oh et al. 2024).
    Midas {
        /// Streams in all, at least 3: the most groups.
        streams: u8,
    },
    /// One stream of the host and one of relocated units. The host goes on in the blocks that relocation has left open (2R:
    /// Kang et al. 2020).
    TwoR,
    /// Writes hinted as metadata have a stream of their own.
    Hints,
    /// The host chooses the stream by a placement handle, as with FDP (NVMe TP4146).
    Handles {
        /// Handles, each a stream.
        count: u8,
        /// Streams of what is relocated.
        isolation: Isolation,
        /// Blocks on each plane that a reclaim unit has.
        unit_blocks: u32,
        /// Reclaim groups, which divide the dies. Each handle is a stream in each group.
        groups: u8,
    },
    /// A placement that is given beside the configuration: a formula, or one of your own.
    Own(StreamLayout),
}

impl PlacementKind {
    /// Streams of host and relocated units together; `shares_host`: relocated units share the host's stream where the
    /// scheme allows it.
    pub fn open_streams(self, shares_host: bool) -> u32 {
        let spec =
            PlacementSpec { kind: self, temperature: Temperature::default(), shares_host, logical_units: 0 };
        let (host, copies, _) = spec.streams();
        host.end.max(copies.end).into()
    }

    /// Streams that the host writes: those with lower numbers.
    pub fn host_streams(self) -> u8 {
        let spec = PlacementSpec {
            kind: self,
            temperature: Temperature::default(),
            shares_host: false,
            logical_units: 0,
        };
        spec.streams().0.end
    }

    /// True if [`Placement::for_write`] is called. The streams of other schemes depend on relocations alone.
    #[inline]
    pub(crate) fn chooses_for_host(self) -> bool {
        !matches!(self, Self::Single | Self::HotCold | Self::Sorted | Self::TwoR)
    }
}

/// Choices that a placement is made from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacementSpec {
    pub(crate) kind: PlacementKind,
    pub(crate) temperature: Temperature,
    /// True if relocated units share stream 0 with the host, where the scheme allows it.
    pub(crate) shares_host: bool,
    pub(crate) logical_units: u32,
}

impl PlacementSpec {
    /// The scheme; `None` for a single stream of the host and one of relocated units, or one of both, and for one that is
    /// given beside the configuration.
    pub(crate) fn build(&self, geometry: &Geometry) -> Option<Box<dyn Placement>> {
        let heat = || HeatTable::new(self.temperature, self.logical_units);
        let first = if self.shares_host { 0 } else { 1 };
        let units = self.logical_units;
        Some(match self.kind {
            PlacementKind::Single | PlacementKind::Own(_) => return None,
            PlacementKind::HotCold => Box::new(HotCold::new(heat(), first)),
            PlacementKind::Sorted => Box::new(Sorted::new(heat(), first, geometry)),
            PlacementKind::SepBit { streams } => Box::new(SepBit::new(streams, units, geometry)),
            PlacementKind::SepBitCopies { streams } => Box::new(SepBit::of_copies(streams, units, geometry)),
            PlacementKind::Dac { streams } => Box::new(Dac::new(streams, units)),
            PlacementKind::Fadac { streams } => Box::new(Fadac::new(streams, units)),
            PlacementKind::Warcip { streams } => Box::new(Warcip::new(streams, units, geometry)),
            PlacementKind::Sfs { streams } => Box::new(Sfs::new(streams, units, geometry)),
            PlacementKind::Midas { streams } => Box::new(Midas::new(streams, units, geometry)),
            PlacementKind::TwoR => Box::new(TwoR),
            PlacementKind::Hints => Box::new(ByTag::hints()),
            PlacementKind::Handles { count, isolation, groups, .. } => {
                Box::new(ByTag::handles(count, isolation, groups, geometry))
            }
        })
    }

    /// Streams of host writes, streams of relocated units, and the most of the latter that one victim can go to. The drive
    /// keeps so many erased blocks for each lane.
    pub(crate) fn streams(&self) -> (Range<u8>, Range<u8>, u8) {
        let first = if self.shares_host { 0 } else { 1 };
        match self.kind {
            PlacementKind::Single => (0..1, first..first + 1, 1),
            PlacementKind::HotCold => (0..1, first..first + 2, 2),
            // Of a single victim, either the one block of cold units or the rest is written.
            PlacementKind::Sorted => (0..1, first..first + 2, 1),
            // A victim of stream 0 goes to one stream, any other to those by age.
            PlacementKind::SepBit { streams } => (0..2, 2..streams, (streams - 3).max(1)),
            PlacementKind::SepBitCopies { streams } => (0..1, 1..streams, streams - 1),
            PlacementKind::Dac { streams }
            | PlacementKind::Fadac { streams }
            | PlacementKind::Sfs { streams } => (0..streams, 0..streams, streams),
            PlacementKind::Warcip { streams } => (0..streams - 1, streams - 1..streams, 1),
            // All units of a block go to one group.
            PlacementKind::Midas { streams } => (0..2, 1..streams, 1),
            PlacementKind::TwoR => (0..1, 1..2, 1),
            // All units of a block come from one stream of the host.
            PlacementKind::Hints => (0..2, 2..3, 1),
            PlacementKind::Handles { count, isolation, groups, .. } => {
                let copies = if isolation == Isolation::Persistent { count } else { 1 };
                let host = count * groups;
                (0..host, host..host + copies * groups, 1)
            }
            PlacementKind::Own(layout) => layout.ranges(),
        }
    }

    /// Bytes of host memory, without those of a placement that is given beside the configuration.
    pub(crate) fn bytes(&self, geometry: &Geometry) -> u64 {
        let units = u64::from(self.logical_units);
        match self.kind {
            PlacementKind::Single
            | PlacementKind::TwoR
            | PlacementKind::Hints
            | PlacementKind::Handles { .. }
            | PlacementKind::Own(_) => 0,
            PlacementKind::HotCold | PlacementKind::Sorted => {
                units * HeatTable::bytes_per_unit(self.temperature)
            }
            PlacementKind::SepBit { .. } | PlacementKind::SepBitCopies { .. } => {
                SepBit::bytes(self.logical_units, geometry)
            }
            PlacementKind::Dac { .. } => units,
            PlacementKind::Fadac { .. } => 4 * units,
            PlacementKind::Warcip { .. } => 16 * units,
            PlacementKind::Sfs { .. } => Sfs::bytes(self.logical_units, geometry),
            PlacementKind::Midas { .. } => Midas::bytes(self.logical_units, geometry),
        }
    }
}
