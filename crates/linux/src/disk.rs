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

/// Disk of a guest: a drive with its interface.
pub struct Disk(Front);

impl Disk {
    /// Creates a disk from `drive`, which must keep contents. `start` is the drive time at guest time 0.
    pub fn new(drive: Box<dyn Simulated>, start: SimTime, options: DiskOptions) -> Self {
        let drive = Attached::new(drive, start);
        Self(match options.interface {
            Interface::Virtio => Front::Block(Box::new(Block::new(drive, options))),
            Interface::Nvme => Front::Nvme(Box::new(Nvme::new(drive, options))),
        })
    }

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

    /// Records every request from now on.
    pub fn record(&mut self, recorder: Recorder) {
        self.attached_mut().recorder = Some(recorder);
    }

    /// Removes and returns the recorder.
    pub fn take_recorder(&mut self) -> Option<Recorder> {
        self.attached_mut().recorder.take()
    }

    /// Reports everything from now on to `watch`.
    pub fn watch(&mut self, watch: Box<dyn Watch>) {
        self.attached_mut().watch = Some(watch);
    }

    pub(crate) fn heard(&mut self) -> &mut Attached {
        self.attached_mut()
    }

    /// Drive with its request counters.
    pub fn target(&self) -> &Target {
        &self.attached().target
    }

    /// Mutable target.
    pub fn target_mut(&mut self) -> &mut Target {
        &mut self.attached_mut().target
    }

    /// Returns the drive.
    pub fn into_drive(self) -> Box<dyn Simulated> {
        let drive = match self.0 {
            Front::Block(block) => block.drive,
            Front::Nvme(nvme) => nvme.drive,
        };
        drive.target.into_drive()
    }

    /// Converts guest time to drive time.
    pub fn time(&self, guest_ns: u64) -> SimTime {
        self.attached().time(guest_ns)
    }
}
