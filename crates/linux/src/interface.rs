use strobe_types::named;

named! {
    /// Drive interface of a guest.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Interface {
        /// Virtio block device: one ring, fewest messages.
        #[default]
        Virtio => "virtio",
        /// NVMe drive on PCI, with the NVMe driver's queues, registers and commands.
        Nvme => "nvme",
    }
}

impl Interface {
    /// Name of the block device in the guest.
    pub fn device(self) -> &'static str {
        match self {
            Self::Virtio => "vda",
            Self::Nvme => "nvme0n1",
        }
    }

    /// Name of the block device of further drive `number`, from 0.
    pub fn other_device(self, number: usize) -> String {
        match self {
            Self::Virtio => format!("vd{}", char::from(b'b' + number.min(24) as u8)),
            Self::Nvme => format!("nvme{}n1", number + 1),
        }
    }

    pub(crate) fn major(self) -> u32 {
        match self {
            Self::Virtio => 254,
            Self::Nvme => 259,
        }
    }

    pub(crate) fn virtio_id(self) -> u32 {
        match self {
            Self::Virtio => 2,
            // Unassigned number, which our kernel interprets as PCI.
            Self::Nvme => 1234,
        }
    }
}
