//! Event log of dies and buses. While it is on, no operation takes a fast path that skips begin or end
//! events.

use strobe_types::Place;

use super::{ArrayTiming, Carry, Group, Kind, NONE};
use crate::{EventKind, FlashOp, NandOp};

impl ArrayTiming {
    pub(super) fn with_fast_paths(mut self) -> Self {
        self.choose_paths();
        self
    }

    /// Chooses the fast paths. They give the same times and only skip events.
    pub(super) fn choose_paths(&mut self) {
        let has_types = self.config.read_ns.types().len() + self.config.program_ns.types().len() > 2;
        let is_plain = self.dies_per_channel == 1
            && !self.config.cache_program
            && !self.overlaps_reads
            && self.in_order.is_none();
        self.owns_bus = is_plain && !self.log.is_on();
        self.can_hurry = self.owns_bus && self.config.shortest_ns() > 0;
        self.has_trains = self.can_hurry && self.planes_per_die == 1 && !has_types;
    }

    #[cold]
    pub(super) fn log_issue(&self, op: u32, kind: Kind, place: Place) {
        let nand_op = match kind {
            Kind::Read => NandOp::Read,
            Kind::Program => NandOp::Program,
            Kind::Erase => NandOp::Erase,
            Kind::Join => return,
        };
        self.log.flash_issued(self.now, op, nand_op, &place);
    }

    #[inline(always)]
    pub(super) fn log_group(&self, group: Group, kind: fn(FlashOp) -> EventKind) {
        if self.log.is_on() {
            self.log_all(group, kind);
        }
    }

    #[cold]
    fn log_all(&self, group: Group, kind: fn(FlashOp) -> EventKind) {
        let mut op = group.first;
        while op != NONE {
            self.log.flash(self.now, op, kind);
            op = self.ops[op].next;
        }
    }

    #[cold]
    pub(super) fn log_transfer(&self, channel: u32, die: u32, what: Carry, transfer_ns: u64) {
        let carries = match what {
            Carry::Load if self.ops[self.dies[die as usize].loads].kind == Kind::Program => "data-in",
            Carry::Load | Carry::Command(_) => "command",
            Carry::Data(_) => "data-out",
        };
        let until = self.at(transfer_ns);
        self.log.add(self.now, || EventKind::Transfer { channel, die, carries, until });
    }
}
