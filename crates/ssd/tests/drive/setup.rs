//! Tiny drives and request sequences for the other modules.

use strobe_ftl::gc::Greedy;
use strobe_ftl::{Inspectable, PageMap, PageMapConfig};
use strobe_nand::{ArrayTiming, Chip, Medium, Nand, Timing, TimingConfig, Untimed, WearConfig};
use strobe_ssd::{
    Command, CommandError, Completion, ControllerConfig, DataMode, Device, DieAllocation, Drive, DriveConfig,
    FtlConfig, GcConfig, GcMode, HostQueue, NandConfig, Pacing, Range, ScheduleTable,
};
use strobe_types::{Geometry, GeometrySpec, Lba, Op, Prng, Request, SimTime};

pub(crate) const T0: SimTime = SimTime::ZERO;
pub(crate) const READ: u64 = 60_000;
pub(crate) const PROGRAM: u64 = 700_000;
pub(crate) const ERASE: u64 = 5_000_000;
/// 4096 bytes at 800 MB/s.
pub(crate) const TRANSFER: u64 = 5_120;
/// Sectors of a 4096-byte mapping unit.
pub(crate) const UNIT: u32 = 8;

pub(crate) type PageDrive<T, M> = Drive<PageMap<Chip<T, M>, Greedy>>;

const FIRST_COME: ScheduleTable =
    ScheduleTable { host_program_ns: 0, background_read_ns: 0, background_program_ns: 0, erase_ns: 0 };

/// Base for closed forms: stop-the-world collection, fixed stripes, first come, first served.
pub(crate) fn config() -> DriveConfig {
    DriveConfig {
        preset: None,
        nand: NandConfig {
            any_page_order: false,
            channels: 1,
            dies_per_channel: 1,
            planes_per_die: 1,
            blocks_per_plane: 32,
            pages_per_block: 8,
            page_bytes: 4096,
            spare_bytes: 0,
            read_ns: READ.into(),
            program_ns: PROGRAM.into(),
            erase_ns: ERASE,
            channel_mb_s: 800,
            pages_per_program: 1,
            command_ns: 0,
            cache_program: false,
            cache_read: false,
            independent_plane_reads: false,
            suspend: Default::default(),
            read_retry: Default::default(),
            faults: Default::default(),
            slc: Default::default(),
            endurance_pe: 0,
            factory_bad_blocks: 0,
            program_fail_rate: 0.0,
            data: DataMode::None,
        },
        ftl: FtlConfig {
            log_blocks: 64,
            log_victim: Default::default(),
            slc_cache: Default::default(),
            translation: strobe_ssd::TranslationTable::default(),
            mapping: "page".to_owned(),
            mapping_unit_bytes: 4096,
            logical_pages: Some(160),
            over_provisioning: None,
            allocation: Default::default(),
            die_allocation: DieAllocation::Stripe,
            placement: Default::default(),
            durable_map: false.into(),
            copy_mode: Default::default(),
            virtual_map_entries: 1,
            gc: GcConfig { mode: GcMode::StopTheWorld, ..GcConfig::default() },
            wear_leveling: Default::default(),
            batch_pages: 0,
            flush_metadata: false,
            owner_lists: false,
            refresh: Default::default(),
        },
        controller: ControllerConfig { schedule: FIRST_COME, ..ControllerConfig::default() },
    }
}

pub(crate) fn shaped(channels: u32, dies_per_channel: u32, planes_per_die: u32) -> DriveConfig {
    let mut config = config();
    config.nand.channels = channels;
    config.nand.dies_per_channel = dies_per_channel;
    config.nand.planes_per_die = planes_per_die;
    config
}

pub(crate) fn buffered(mut config: DriveConfig, units: u64) -> DriveConfig {
    config.controller.write_buffer_bytes = units * u64::from(config.ftl.mapping_unit_bytes);
    config
}

pub(crate) fn cached(mut config: DriveConfig, units: u64) -> DriveConfig {
    config.controller.nvram.bytes = units * u64::from(config.ftl.mapping_unit_bytes);
    config
}

pub(crate) fn geometry(config: &DriveConfig) -> Geometry {
    Geometry::new(GeometrySpec {
        channels: config.nand.channels,
        dies_per_channel: config.nand.dies_per_channel,
        planes_per_die: config.nand.planes_per_die,
        blocks_per_plane: config.nand.blocks_per_plane,
        pages_per_block: config.nand.pages_per_block,
        page_bytes: config.nand.page_bytes,
        unit_bytes: config.ftl.mapping_unit_bytes,
    })
    .expect("valid geometry")
}

pub(crate) fn array_timing(config: &DriveConfig) -> ArrayTiming {
    let nand = &config.nand;
    let timing = TimingConfig {
        read_ns: nand.read_ns,
        program_ns: nand.program_ns,
        erase_ns: nand.erase_ns,
        channel_mb_s: nand.channel_mb_s,
        spare_bytes: nand.spare_bytes,
        command_ns: nand.command_ns,
        cache_program: nand.cache_program,
        cache_read: nand.cache_read,
        independent_plane_reads: nand.independent_plane_reads,
        ..TimingConfig::default()
    };
    ArrayTiming::new(timing, &geometry(config))
}

/// The drive of `build` with its concrete type: greedy, own stream, seed 1.
fn drive<T: Timing, M: Medium>(config: &DriveConfig, timing: T) -> PageDrive<T, M> {
    let nand = &config.nand;
    let wear = WearConfig {
        endurance_pe: (nand.endurance_pe > 0).then_some(nand.endurance_pe),
        factory_bad_blocks: nand.factory_bad_blocks,
        program_fail_rate: nand.program_fail_rate,
    };
    let chip = Chip::new(geometry(config), wear, timing, 1);
    let policy = Greedy::new(chip.geometry().blocks());
    let units = config.logical_units() as u32;
    let map =
        PageMapConfig { seed: 1, durable: config.ftl.durable_map.is_durable(), ..PageMapConfig::new(units) };
    Drive::new(PageMap::new(chip, policy, map).expect("room"), &config.controller)
}

pub(crate) fn counting<M: Medium>(config: &DriveConfig) -> PageDrive<Untimed, M> {
    drive(config, Untimed::default())
}

pub(crate) fn timed<M: Medium>(config: &DriveConfig) -> PageDrive<ArrayTiming, M> {
    drive(config, array_timing(config))
}

pub(crate) fn closed(depth: u32) -> HostQueue {
    HostQueue::new(Pacing::Closed { depth, interval_ns: 0 }, T0)
}

pub(crate) fn write(lba: u64, sectors: u32) -> Request {
    Request::new(Op::Write, Lba::new(lba), sectors)
}

pub(crate) fn read(lba: u64, sectors: u32) -> Request {
    Request::new(Op::Read, Lba::new(lba), sectors)
}

pub(crate) fn write_unit(unit: u64) -> Request {
    write(unit * u64::from(UNIT), UNIT)
}

pub(crate) fn read_unit(unit: u64) -> Request {
    read(unit * u64::from(UNIT), UNIT)
}

pub(crate) fn unit_writes(units: u32, count: usize, seed: u64) -> Vec<Request> {
    let mut rng = Prng::new(seed);
    (0..count).map(|_| write_unit(u64::from(rng.below(units)))).collect()
}

pub(crate) fn mixed_requests(sectors: u64, per_unit: u32, count: usize, seed: u64) -> Vec<Request> {
    let mut rng = Prng::new(seed);
    let units = (sectors / u64::from(per_unit)) as u32;
    let mut requests = Vec::with_capacity(count);
    while requests.len() < count {
        let unit_lba = u64::from(rng.below(units)) * u64::from(per_unit);
        let lba = rng.below_u64(sectors);
        let length = 1 + rng.below((sectors - lba).min(u64::from(per_unit) * 5) as u32);
        requests.push(match rng.below(20) {
            0..=9 => write(unit_lba, per_unit),
            10..=12 => write(lba, length),
            13 | 14 => read(lba, length),
            15 => read(unit_lba, per_unit),
            16 | 17 => Request::new(Op::Trim, Lba::new(lba), length),
            18 => Request::new(Op::Trim, Lba::new(unit_lba), per_unit),
            _ => Request::FLUSH,
        });
    }
    requests
}

pub(crate) trait Host: Device {
    fn request(&mut self, now: SimTime, request: Request) -> Result<SimTime, CommandError> {
        let mut queue = HostQueue::new(Pacing::Open, now);
        self.run(&[request], &[], &mut queue).map_err(|(_, error)| error)?;
        Ok(queue.finished())
    }

    fn execute_with(
        &mut self,
        now: SimTime,
        command: &Command<'_>,
        data: &[u8],
    ) -> Result<SimTime, CommandError> {
        self.submit(now, 0, command, Some(data));
        let mut done = Vec::new();
        self.advance(SimTime::from_ns(u64::MAX), &mut done);
        assert_eq!(done.len(), 1);
        let Completion { at, result, .. } = done.remove(0);
        result.map(|_| at)
    }
}

impl<D: Device + ?Sized> Host for D {}

pub(crate) fn contents<F: Inspectable + Send>(drive: &mut Drive<F>) -> Vec<F::Payload> {
    let range = Range::new(Lba::new(0), drive.sectors() as u32);
    drive.execute(T0, &Command::Read { range }).expect("the whole drive is in range");
    drive.last_read().to_vec()
}
