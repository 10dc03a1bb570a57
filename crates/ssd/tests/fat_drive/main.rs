//! A FAT volume on a drive in virtual time, with each mapping scheme: flash then holds a sound volume, also
//! after a power cut at any flash operation.

mod disk;

use std::process::{Command, Output};

use disk::DriveDisk;
use strobe_ftl::gc::Greedy;
use strobe_ftl::{
    BlockMap, BlockMapConfig, BlockScheme, Inspectable, PageMap, PageMapConfig, Recoverable,
    TranslationConfig,
};
use strobe_nand::{ArrayTiming, ByteMedium, Chip, Nand, TimingConfig, UnitBytes, WearConfig};
use strobe_ssd::{ControllerConfig, Drive};
use strobe_types::{Geometry, GeometrySpec, Prng, SECTOR_BYTES, State};
use strobe_workload::files::camera::CameraConfig;
use strobe_workload::files::copy_tar::CopyTarConfig;
use strobe_workload::files::fat::{FatFormat, FatVolume, MemoryDisk, MountOptions, SectorDevice};
use strobe_workload::files::filemicro_delete::FilemicroDeleteConfig;
use strobe_workload::files::postmark::PostmarkConfig;
use strobe_workload::files::tiobench::TiobenchConfig;
use strobe_workload::files::varmail::VarmailConfig;
use strobe_workload::files::{FileError, FileWorkload, FileWorkloadError};

type Flash = Chip<ArrayTiming, ByteMedium>;

fn chip(sectors: u32) -> Flash {
    let geometry = Geometry::new(GeometrySpec {
        channels: 1,
        dies_per_channel: 1,
        planes_per_die: 1,
        blocks_per_plane: sectors.div_ceil(32) * 17 / 16 + 120,
        pages_per_block: 32,
        page_bytes: 512,
        unit_bytes: 512,
    })
    .expect("valid geometry");
    let timing = TimingConfig {
        read_ns: 10_000.into(),
        program_ns: 200_000.into(),
        erase_ns: 2_000_000,
        channel_mb_s: 20,
        spare_bytes: 16,
        cache_program: false,
        ..TimingConfig::default()
    };
    let timing = ArrayTiming::new(timing, &geometry);
    Chip::new(geometry, WearConfig::default(), timing, 1).in_any_order()
}

macro_rules! with_each_scheme {
    ($sectors:expr, $run:expr) => {
        for scheme in [BlockScheme::ReplacementBlock, BlockScheme::LogBlock, BlockScheme::Fast] {
            let config = BlockMapConfig { durable: true, ..BlockMapConfig::new(scheme, $sectors, 16) };
            $run(scheme.name(), disk(BlockMap::new(chip($sectors), config).expect("room")));
        }
        let config = PageMapConfig { durable: true, ..PageMapConfig::new($sectors) };
        let flash = chip($sectors);
        let policy = Greedy::new(flash.geometry().blocks());
        $run("page", disk(PageMap::new(flash.clone(), policy.clone(), config).expect("room")));
        let config = PageMapConfig { translation: Some(TranslationConfig::new(512)), ..config };
        $run("dftl", disk(PageMap::new(flash, policy, config).expect("room")));
    };
}

fn disk<F>(ftl: F) -> DriveDisk
where
    F: State + Inspectable + Recoverable<Payload = UnitBytes> + Clone + Send + 'static,
    F::Nand: Clone,
{
    DriveDisk::new(Box::new(Drive::new(ftl, &ControllerConfig::default())), 0)
}

fn fsck(image: &[u8], option: &str) -> Option<(Output, Vec<u8>)> {
    let program = strobe_testing::program("fsck.fat", "dosfstools")?;
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), image).expect("written");
    let output = Command::new(program).arg(option).arg(file.path()).output().expect("fsck.fat runs");
    Some((output, std::fs::read(file.path()).expect("reads")))
}

fn assert_sound(image: &[u8], what: &str) {
    if let Some((output, _)) = fsck(image, "-n") {
        assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stdout));
    }
}

fn workloads() -> Vec<(&'static str, FatFormat, MountOptions, Box<dyn FileWorkload>)> {
    let board = FatFormat::default();
    let buffered = MountOptions {
        mode: strobe_workload::files::Mode::Buffered,
        discard: true,
        ..MountOptions::default()
    };
    let small = PostmarkConfig { files: 50, transactions: 300, ..PostmarkConfig::hot_metadata() };
    let camera = CameraConfig { transactions: 3, ..CameraConfig::default() };
    let varmail = VarmailConfig { files: 60, ..VarmailConfig::default() };
    vec![
        ("camera", board.clone(), MountOptions::default(), Box::new(camera)),
        ("postmark", board.clone(), MountOptions::default(), Box::new(small.clone())),
        ("postmark, buffered, discard", board.clone(), buffered, Box::new(small)),
        ("varmail", board.clone(), MountOptions::default(), Box::new(varmail)),
        (
            "filemicro_delete",
            board.clone(),
            buffered,
            Box::new(FilemicroDeleteConfig { files: 200, deletes: 200, ..Default::default() }),
        ),
        ("tiobench", board.clone(), buffered, Box::new(small_tiobench())),
        (
            "copy_tar",
            board,
            buffered,
            Box::new(CopyTarConfig { archive_bytes: 4 << 20, ..Default::default() }),
        ),
    ]
}

fn small_tiobench() -> TiobenchConfig {
    TiobenchConfig { file_bytes: 2 << 20, random_write_bytes: 1 << 19, ..TiobenchConfig::default() }
}

#[test]
fn every_workload_leaves_a_sound_volume_on_the_flash_of_every_scheme() {
    for (name, format, options, workload) in workloads() {
        let mut reference =
            FatVolume::format(MemoryDisk::new(format.volume_sectors), &format).expect("formats");
        workload.run(&mut reference.mount(options), 5, &mut ()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let reference = reference.unmount().expect("unmounts").image().to_vec();
        assert_sound(&reference, name);
        with_each_scheme!(format.volume_sectors, |scheme, disk| {
            let image = run_on(disk, &format, options, &*workload).unwrap_or_else(|e| panic!("{name}: {e}"));
            // Trimmed sectors read as zeros on the drive, and as any content in memory.
            let same = if options.discard { None } else { Some(image == reference) };
            assert_ne!(same, Some(false), "{name} on {scheme}: not what a plain disk holds");
            assert_sound(&image, &format!("{name} on {scheme}"));
        });
    }
}

fn run_on(
    disk: DriveDisk,
    format: &FatFormat,
    options: MountOptions,
    workload: &dyn FileWorkload,
) -> Result<Vec<u8>, FileWorkloadError> {
    let mut volume = FatVolume::format(disk, format)?;
    workload.run(&mut volume.mount(options), 5, &mut ())?;
    let mut disk = volume.unmount()?;
    disk.drive().check().expect("state");
    Ok(disk.image()?)
}

/// A disk that fails after a power cut, and keeps earlier writes.
struct UntilCut {
    disk: DriveDisk,
    before: MemoryDisk,
    cut_in: Option<u64>,
}

impl SectorDevice for UntilCut {
    fn sectors(&self) -> u64 {
        self.disk.sectors()
    }

    fn read(&mut self, sector: u64, buffer: &mut [u8]) -> Result<(), FileError> {
        self.disk.read(sector, buffer)
    }

    fn write(
        &mut self,
        sector: u64,
        bytes: &[u8],
        class: strobe_workload::files::fat::Class,
    ) -> Result<(), FileError> {
        self.disk.write(sector, bytes, class)?;
        if self.disk.drive().was_cut() {
            self.cut_in = Some(sector);
            return Err(FileError::Io("the power is off".into()));
        }
        self.before.write(sector, bytes, class)
    }

    fn flush(&mut self) -> Result<(), FileError> {
        self.disk.flush()?;
        if self.disk.drive().was_cut() { Err(FileError::Io("the power is off".into())) } else { Ok(()) }
    }
}

#[test]
fn a_cut_leaves_every_synchronous_write_and_a_volume_that_can_be_repaired() {
    let format = FatFormat { volume_sectors: 20_000, root_slots: 64, ..FatFormat::default() };
    let mut rng = Prng::new(3);
    with_each_scheme!(20_000, |scheme, disk| cut_it(scheme, disk, &format, &mut rng));
}

fn cut_it(scheme: &str, disk: DriveDisk, format: &FatFormat, rng: &mut Prng) {
    let workload = PostmarkConfig {
        files: 12,
        size_max_bytes: 9000,
        transactions: 40,
        subdirectories: 3,
        ..PostmarkConfig::hot_metadata()
    };
    let fresh = FatVolume::format(disk, format).expect("formats").unmount().expect("unmounts");
    let operations = fresh.drive().operations();
    for cut in 0..12 {
        let mut disk = fresh.clone();
        let before = MemoryDisk::from_image(disk.image().expect("reads"));
        disk.drive_mut().plan_cut(operations + 1 + u64::from(rng.below(900)));
        let mut device = UntilCut { disk, before, cut_in: None };
        let mut volume = FatVolume::open(&mut device, 0).expect("opens");
        let error = workload.run(&mut volume.mount(MountOptions::default()), 42, &mut ());
        assert!(error.is_err(), "{scheme}, cut {cut}: the cut never came");
        drop(volume);
        let UntilCut { disk, before, cut_in } = device;
        let (mut disk, _) = disk.restart().unwrap_or_else(|error| panic!("{scheme}, cut {cut}: {error}"));
        let image = disk.image().expect("reads");
        for (sector, (now, was)) in (0u64..)
            .zip(image.chunks(SECTOR_BYTES as usize).zip(before.image().chunks(SECTOR_BYTES as usize)))
        {
            let torn = cut_in == Some(sector);
            assert!(torn || now == was, "{scheme}, cut {cut}: sector {sector} is not what was written");
        }
        assert_repairable(&image, &format!("{scheme}, cut {cut}"));
    }
}

fn assert_repairable(image: &[u8], what: &str) {
    if let Some((output, repaired)) = fsck(image, "-a") {
        // 1: errors were repaired.
        assert!(output.status.code().is_some_and(|code| code <= 1), "{what}: {output:?}");
        assert_sound(&repaired, what);
    }
}
