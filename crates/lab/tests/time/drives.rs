use strobe_lab::Experiment;
use strobe_ssd::DriveConfig;
use strobe_workload::synthetic::SyntheticConfig;

use crate::host::{Host, Window};

/// Of `generic-8g`.
pub(crate) const READ_NS: u64 = 60_000;
pub(crate) const PROGRAM_NS: u64 = 700_000;
pub(crate) const ERASE_NS: u64 = 5_000_000;
const CHANNEL_MB_S: u64 = 800;

const UNIT_BYTES: u32 = 4096;
const PAGES_PER_BLOCK: u32 = 64;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Drive {
    pub(crate) channels: u32,
    pub(crate) dies_per_channel: u32,
    pub(crate) planes: u32,
    pub(crate) blocks_per_plane: u32,
    pub(crate) page_bytes: u32,
    pub(crate) over_provisioning: f64,
    pub(crate) die_allocation: &'static str,
    pub(crate) mode: &'static str,
    pub(crate) victim: &'static str,
    /// In stripes, a page on each plane of the drive; 0: none.
    pub(crate) buffer_stripes: u32,
    /// 0: defaults of the drive.
    pub(crate) low_watermark_blocks: u32,
    pub(crate) high_watermark_blocks: u32,
    pub(crate) depth_per_die: u32,
}

pub(crate) const PLAIN: Drive = Drive {
    channels: 4,
    dies_per_channel: 1,
    planes: 1,
    blocks_per_plane: 64,
    page_bytes: UNIT_BYTES,
    over_provisioning: 0.28,
    die_allocation: "free-first",
    mode: "background",
    victim: "greedy",
    buffer_stripes: 0,
    low_watermark_blocks: 0,
    high_watermark_blocks: 0,
    depth_per_die: 8,
};

impl Drive {
    pub(crate) fn dies(&self) -> u32 {
        self.channels * self.dies_per_channel
    }

    pub(crate) fn units_per_page(&self) -> u32 {
        self.page_bytes / UNIT_BYTES
    }

    pub(crate) fn name(&self) -> String {
        let Self { channels, dies_per_channel, planes, die_allocation, mode, victim, buffer_stripes, .. } =
            *self;
        format!(
            "{channels} × {dies_per_channel} dies × {planes}, {die_allocation}, {victim}, {mode}, {buffer_stripes} stripes"
        )
    }

    pub(crate) fn config(&self) -> DriveConfig {
        let Self { channels, dies_per_channel, planes, blocks_per_plane, page_bytes, .. } = *self;
        let Self { over_provisioning, die_allocation, mode, victim, .. } = *self;
        let marks = match mode {
            "background" => {
                format!(
                    "low_watermark_blocks = {}\nhigh_watermark_blocks = {}\n",
                    self.low_watermark_blocks, self.high_watermark_blocks
                )
            }
            _ => String::new(),
        };
        let buffer = self.buffer_stripes * self.dies() * planes * page_bytes;
        drive(&format!(
            "[drive.nand]\nchannels = {channels}\ndies_per_channel = {dies_per_channel}\nplanes_per_die = {planes}\n\
             blocks_per_plane = {blocks_per_plane}\npages_per_block = {PAGES_PER_BLOCK}\npage_bytes = {page_bytes}\n\
             read_ns = {READ_NS}\nprogram_ns = {PROGRAM_NS}\nerase_ns = {ERASE_NS}\nchannel_mb_s = {CHANNEL_MB_S}\n\
             endurance_pe = 0\n[drive.ftl]\nover_provisioning = {over_provisioning}\ndie_allocation = \"{die_allocation}\"\n\
             [drive.ftl.gc]\nmode = \"{mode}\"\nvictim = \"{victim}\"\n{marks}[drive.controller]\nwrite_buffer_bytes = {buffer}\n"
        ))
    }

    /// Filled, after `warm_up` drive sizes of saturated random writes.
    pub(crate) fn warmed_up(&self, warm_up: u64) -> Host {
        let mut host = Host::filled(&self.config(), &SyntheticConfig::default());
        host.run_closed(self.depth(), warm_up * u64::from(host.drive.logical_units()));
        host
    }

    pub(crate) fn depth(&self) -> u32 {
        self.depth_per_die * self.dies()
    }

    pub(crate) fn saturated(&self, warm_up: u64, window: u64) -> Window {
        let mut host = self.warmed_up(warm_up);
        let units = u64::from(host.drive.logical_units());
        host.measure(|host| host.run_closed(self.depth(), window * units))
    }

    pub(crate) fn transfer_ns(&self, units: u32) -> u64 {
        (u64::from(units * UNIT_BYTES) * 1000).div_ceil(CHANNEL_MB_S)
    }
}

pub(crate) fn drive(text: &str) -> DriveConfig {
    Experiment::from_toml(text).unwrap_or_else(|error| panic!("{error}\n{text}")).drive
}
