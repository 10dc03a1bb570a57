//! Construction with idle dies and channels.

use std::collections::BinaryHeap;

use strobe_types::{Geometry, SimTime};

use super::super::config::Issue;
use super::super::reader::Reader;
use super::{ArrayTiming, Block, Channel, Die, Noted, Occupancy, Ops, Race, Reports, TimingConfig};
use crate::EventLog;

impl ArrayTiming {
    /// A timing model with idle dies and channels.
    pub fn new(config: TimingConfig, geometry: &Geometry) -> Self {
        let transfer_ns = |bytes: u64| match config.channel_mb_s {
            0 => 0,
            rate => (bytes * 1000).div_ceil(u64::from(rate)),
        };
        let spec = geometry.spec();
        let parts = config.pages_per_program.max(1);
        let part_bytes = spec.page_bytes / parts;
        // A unit crosses the bus with its share of the spare area.
        let spare_per_unit = config.spare_bytes / (part_bytes / spec.unit_bytes);
        let part_transfer_ns =
            config.command_ns + transfer_ns(u64::from(part_bytes) + u64::from(config.spare_bytes));
        let readers_per_die = if config.independent_plane_reads { spec.planes_per_die } else { 1 };
        let overlaps_reads = config.cache_read || readers_per_die > 1;
        let dies: Vec<_> = (0..geometry.dies()).map(|die| Die::new(die / spec.dies_per_channel)).collect();
        Self {
            config,
            parts,
            part_transfer_ns,
            page_transfer_ns: u64::from(parts) * part_transfer_ns,
            unit_transfer_ns: transfer_ns(u64::from(spec.unit_bytes) + u64::from(spare_per_unit)),
            dies_per_channel: spec.dies_per_channel,
            planes_per_die: spec.planes_per_die,
            owns_bus: false,
            can_hurry: false,
            has_trains: false,
            may_suspend: config.suspend.most > 0,
            readers_per_die,
            overlaps_reads,
            readers: vec![Reader::default(); dies.len() * readers_per_die as usize],
            now: SimTime::ZERO,
            ops: Ops::default(),
            marked_dies: Noted::new(dies.len()),
            marked_channels: Noted::new(spec.channels as usize),
            dies,
            channels: vec![Channel::default(); spec.channels as usize],
            race: Race::new(2 * (readers_per_die * geometry.dies()) as usize),
            later: BinaryHeap::new(),
            blocks: vec![Block::default(); geometry.blocks() as usize],
            more_erases: Vec::new(),
            ready: Vec::new(),
            reported: Reports::default(),
            occupancy: Occupancy::default(),
            in_order: (config.issue == Issue::InOrder).then(Box::default),
            log: EventLog::OFF,
        }
        .with_fast_paths()
    }

    pub(super) fn idle(&self) -> Self {
        let dies = self.dies.iter().map(|die| Die::new(die.channel)).collect::<Vec<_>>();
        // Settings, time and occupancy stay; operations in flight are gone.
        Self {
            config: self.config,
            parts: self.parts,
            part_transfer_ns: self.part_transfer_ns,
            page_transfer_ns: self.page_transfer_ns,
            unit_transfer_ns: self.unit_transfer_ns,
            dies_per_channel: self.dies_per_channel,
            planes_per_die: self.planes_per_die,
            owns_bus: self.owns_bus,
            can_hurry: self.can_hurry,
            has_trains: self.has_trains,
            may_suspend: self.may_suspend,
            readers_per_die: self.readers_per_die,
            overlaps_reads: self.overlaps_reads,
            readers: vec![Reader::default(); self.readers.len()],
            now: self.now,
            ops: Ops::default(),
            race: Race::new(2 * self.readers.len()),
            dies,
            channels: vec![Channel::default(); self.channels.len()],
            later: BinaryHeap::new(),
            blocks: vec![Block::default(); self.blocks.len()],
            more_erases: Vec::new(),
            ready: Vec::new(),
            reported: Reports::default(),
            marked_dies: Noted::new(self.dies.len()),
            marked_channels: Noted::new(self.channels.len()),
            occupancy: self.occupancy,
            in_order: self.in_order.as_ref().map(|_| Box::default()),
            log: self.log.clone(),
        }
    }
}
