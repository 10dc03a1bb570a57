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
    /// One stream for host writes and one for relocated units.
    #[default]
    Single,
    /// Each victim is split at its mean temperature (CAT: Chiang & Chang 1999).
    HotCold,
    /// The units of all victims are sorted by temperature. The coldest, in multiples of one block per plane,
    /// have a separate stream (CAPi: Hwang & Kwak 2016, §III).
    Sorted,
    /// Separation by estimated block invalidation time (SepBIT: Wang et al. 2022).
    SepBit {
        /// At least 3: two for the host, one for units left in short-lived blocks, the others by age. With 3,
        /// the last takes all relocated units (UW).
        streams: u8,
    },
    /// SepBIT for relocated units only (GW).
    SepBitCopies {
        /// At least 2: one for the host, the others by age.
        streams: u8,
    },
    /// A level for each unit, raised by host writes and lowered by relocations (DAC: Chiang, Lee & Chang
    /// 1999).
    Dac {
        /// One per level.
        streams: u8,
    },
    /// Streams by the order of magnitude of a unit's writes minus its relocations (FADaC: Kremer & Brinkmann
    /// 2019).
    Fadac {
        /// One per power of ten.
        streams: u8,
    },
    /// Clusters of rewrite intervals (WARCIP: Yang, Pei & Yang 2019).
    Warcip {
        /// At least 2: one for relocated units, the others for clusters.
        streams: u8,
    },
    /// Clusters of block hotness (SFS: Min et al. 2012).
    Sfs {
        /// One per cluster.
        streams: u8,
    },
    /// A hot stream and a chain of groups; relocation moves units to the next group. Number and sizes of
    /// groups adapt to the writes (MiDAS: Oh et al. 2024).
    Midas {
        /// At least 3; limits the number of groups.
        streams: u8,
    },
    /// One stream for the host, one for relocated units. Host writes continue in blocks that relocation left
    /// open (2R: Kang et al. 2020).
    TwoR,
    /// A separate stream for writes hinted as metadata.
    Hints,
    /// Streams chosen by placement handle, as with FDP (NVMe TP4146).
    Handles {
        /// Number of handles, each a stream.
        count: u8,
        /// Streams of relocated units.
        isolation: Isolation,
        /// Blocks of a reclaim unit on each plane.
        unit_blocks: u32,
        /// Reclaim groups, which divide the dies. Each handle has a stream in each group.
        groups: u8,
    },
    /// A placement passed separately: a formula, or a user-defined one.
    Own(StreamLayout),
}

impl PlacementKind {
    /// Streams of host and relocated units. With `shares_host`, relocated units share the host's stream if
    /// possible.
    pub fn open_streams(self, shares_host: bool) -> u32 {
        let spec =
            PlacementSpec { kind: self, temperature: Temperature::default(), shares_host, logical_units: 0 };
        let (host, copies, _) = spec.streams();
        host.end.max(copies.end).into()
    }

    /// Number of host streams; these have the lowest numbers.
    pub fn host_streams(self) -> u8 {
        let spec = PlacementSpec {
            kind: self,
            temperature: Temperature::default(),
            shares_host: false,
            logical_units: 0,
        };
        spec.streams().0.end
    }

    /// True if a unit folded out of an SLC cache goes to the host stream chosen at its write. With other schemes it is
    /// placed as a relocated one.
    pub(crate) fn names_folded(self) -> bool {
        !matches!(self, Self::Single | Self::HotCold | Self::Sorted)
    }

    /// True if [`Placement::for_write`] is called; other schemes only place relocated units.
    #[inline]
    pub(crate) fn chooses_for_host(self) -> bool {
        !matches!(self, Self::Single | Self::HotCold | Self::Sorted | Self::TwoR)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacementSpec {
    pub(crate) kind: PlacementKind,
    pub(crate) temperature: Temperature,
    pub(crate) shares_host: bool,
    pub(crate) logical_units: u32,
}

impl PlacementSpec {
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

    /// Streams of the host, streams of relocated units, and the maximum of these per victim: the drive
    /// reserves that number of erased blocks per plane.
    pub(crate) fn streams(&self) -> (Range<u8>, Range<u8>, u8) {
        let first = if self.shares_host { 0 } else { 1 };
        match self.kind {
            PlacementKind::Single => (0..1, first..first + 1, 1),
            PlacementKind::HotCold => (0..1, first..first + 2, 2),
            // A victim fills either the one block of cold units or the rest.
            PlacementKind::Sorted => (0..1, first..first + 2, 1),
            // A victim of stream 0 uses one stream, any other the streams by age.
            PlacementKind::SepBit { streams } => (0..2, 2..streams, (streams - 3).max(1)),
            PlacementKind::SepBitCopies { streams } => (0..1, 1..streams, streams - 1),
            PlacementKind::Dac { streams }
            | PlacementKind::Fadac { streams }
            | PlacementKind::Sfs { streams } => (0..streams, 0..streams, streams),
            PlacementKind::Warcip { streams } => (0..streams - 1, streams - 1..streams, 1),
            // All units of a block move to one group.
            PlacementKind::Midas { streams } => (0..2, 1..streams, 1),
            PlacementKind::TwoR => (0..1, 1..2, 1),
            // All units of a block come from one host stream.
            PlacementKind::Hints => (0..2, 2..3, 1),
            PlacementKind::Handles { count, isolation, groups, .. } => {
                let copies = if isolation == Isolation::Persistent { count } else { 1 };
                let host = count * groups;
                (0..host, host..host + copies * groups, 1)
            }
            PlacementKind::Own(layout) => layout.ranges(),
        }
    }

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
