//! Interfaces of the drive for guests.

use strobe_types::named;

named! {
    /// Interface of the drive for the guest.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Interface {
        /// A virtio block device: one ring, the fewest messages.
        #[default]
        Virtio => "virtio",
        /// An NVMe drive on PCI: the driver of such drives, with its queues, its registers and its commands.
        Nvme => "nvme",
    }
}

impl Interface {
    /// The name of the block device in the guest.
    pub fn device(self) -> &'static str {
        match self {
            Self::Virtio => "vda",
            Self::Nvme => "nvme0n1",
        }
    }

    /// The name of the block device of further drive `number`, from 0.
    pub fn other_device(self, number: usize) -> String {
        match self {
            Self::Virtio => format!("vd{}", char::from(b'b' + number.min(24) as u8)),
            Self::Nvme => format!("nvme{}n1", number + 1),
        }
    }

    /// The number of its driver that the kernel gives to block devices, as block traces have it.
    pub(crate) fn major(self) -> u32 {
        match self {
            Self::Virtio => 254,
            Self::Nvme => 259,
        }
    }

    /// The number of the virtio device that carries it.
    pub(crate) fn virtio_id(self) -> u32 {
        match self {
            Self::Virtio => 2,
            // Nobody's: the kernel that we build takes it for PCI.
            Self::Nvme => 1234,
        }
    }
}
