//! The guest's disk: the drive, and what the guest takes it for.

use strobe_ssd::{Simulated, Target};
use strobe_types::SimTime;

use crate::attached::{Attached, DiskOptions};
use crate::block::Block;
use crate::interface::Interface;
use crate::nvme::Nvme;
use crate::port::Device;
use crate::record::Recorder;
use crate::watch::Watch;

enum Front {
    Block(Box<Block>),
    Nvme(Box<Nvme>),
}

/// A drive as a disk of a guest.
pub struct Disk(Front);

impl Disk {
    /// `drive`, which keeps contents, as a disk. The guest's time 0 is `start` for it.
    pub fn new(drive: Box<dyn Simulated>, start: SimTime, options: DiskOptions) -> Self {
        let drive = Attached::new(drive, start);
        Self(match options.interface {
            Interface::Virtio => Front::Block(Box::new(Block::new(drive, options))),
            Interface::Nvme => Front::Nvme(Box::new(Nvme::new(drive, options))),
        })
    }

    /// Placement handles of its drive.
    pub(crate) fn handles(&self) -> u16 {
        self.attached().handles()
    }

    fn attached(&self) -> &Attached {
        match &self.0 {
            Front::Block(block) => &block.drive,
            Front::Nvme(nvme) => &nvme.drive,
        }
    }

    fn attached_mut(&mut self) -> &mut Attached {
        match &mut self.0 {
            Front::Block(block) => &mut block.drive,
            Front::Nvme(nvme) => &mut nvme.drive,
        }
    }

    /// Device as the guest's driver sees it.
    pub(crate) fn device(&mut self) -> &mut dyn Device {
        match &mut self.0 {
            Front::Block(block) => &mut **block,
            Front::Nvme(nvme) => &mut **nvme,
        }
    }

    pub(crate) fn next_event(&self) -> Option<u64> {
        match &self.0 {
            Front::Block(block) => block.next_event(),
            Front::Nvme(nvme) => nvme.next_event(),
        }
    }

    /// Writes down every request from now on.
    pub fn record(&mut self, recorder: Recorder) {
        self.attached_mut().recorder = Some(recorder);
    }

    /// The record, if there is one.
    pub fn take_recorder(&mut self) -> Option<Recorder> {
        self.attached_mut().recorder.take()
    }

    /// Shows everything from now on to `watch`.
    pub fn watch(&mut self, watch: Box<dyn Watch>) {
        self.attached_mut().watch = Some(watch);
    }

    /// Drive and its watch, for reports from the guest itself.
    pub(crate) fn heard(&mut self) -> &mut Attached {
        self.attached_mut()
    }

    /// The drive, and what the guest has sent.
    pub fn target(&self) -> &Target {
        &self.attached().target
    }

    /// Mutable target, to begin a new window of latencies.
    pub fn target_mut(&mut self) -> &mut Target {
        &mut self.attached_mut().target
    }

    /// Gives the drive back.
    pub fn into_drive(self) -> Box<dyn Simulated> {
        let drive = match self.0 {
            Front::Block(block) => block.drive,
            Front::Nvme(nvme) => nvme.drive,
        };
        drive.target.into_drive()
    }

    /// The drive's time at `guest_ns`.
    pub fn time(&self, guest_ns: u64) -> SimTime {
        self.attached().time(guest_ns)
    }
}
