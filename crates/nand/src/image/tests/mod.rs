//! Images compared with chips in memory, on a disk that logs every write and fails on demand.

mod damage;
mod errors;
mod files;
mod kill;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proptest::prelude::*;
use strobe_types::{BlockId, Geometry, GeometrySpec, Lpn};

use super::layout::Layout;
use super::storage::Storage;
use super::{DataMedium, Image, ImageError, ImageInfo};
use crate::{
    ByteMedium, Cause, Chip, Nand, NandOp, Payload, Unit, UnitBytes, Untimed, WearConfig, When, verify_page,
};

type FileChip = Chip<Untimed, DataMedium>;
type MemoryChip = Chip<Untimed, ByteMedium>;

const T0: When = When::START;

#[derive(Clone, Debug)]
enum Change {
    Write(u64, Vec<u8>),
    Punch(u64, u64),
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    log: Vec<Change>,
    free_bytes: Option<u64>,
    reads_fail: bool,
}

#[derive(Clone, Debug, Default)]
struct Disk(Arc<Mutex<State>>);

impl Disk {
    fn of(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(State { bytes, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bytes(&self) -> Vec<u8> {
        self.state().bytes.clone()
    }
}

impl State {
    fn apply(bytes: &mut [u8], change: &Change) {
        match change {
            Change::Write(at, new) => bytes[*at as usize..][..new.len()].copy_from_slice(new),
            Change::Punch(at, length) => bytes[*at as usize..][..*length as usize].fill(0),
        }
    }

    fn change(&mut self, change: Change) {
        Self::apply(&mut self.bytes, &change);
        self.log.push(change);
    }
}

impl Storage for Disk {
    fn length(&self) -> io::Result<u64> {
        Ok(self.state().bytes.len() as u64)
    }

    fn read(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let state = self.state();
        if state.reads_fail {
            return Err(io::Error::other("the disk is broken"));
        }
        let from = state.bytes.get(offset as usize..).unwrap_or_default();
        let there = from.len().min(bytes.len());
        bytes[..there].copy_from_slice(&from[..there]);
        bytes[there..].fill(0);
        Ok(())
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.state();
        let fits = state.free_bytes.map_or(bytes.len(), |free_bytes| bytes.len().min(free_bytes as usize));
        // Like the kernel: a write that does not fit stores whole sectors of 512 bytes only.
        let fits = if fits < bytes.len() { fits / 512 * 512 } else { fits };
        state.free_bytes = state.free_bytes.map(|free_bytes| free_bytes - fits as u64);
        if fits > 0 {
            state.change(Change::Write(offset, bytes[..fits].to_vec()));
        }
        if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn punch(&self, offset: u64, length: u64) {
        self.state().change(Change::Punch(offset, length));
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

fn geometry(blocks: u32, pages: u32, units_per_page: u32, unit_bytes: u32) -> Geometry {
    Geometry::new(GeometrySpec {
        channels: 1,
        dies_per_channel: 1,
        planes_per_die: 1,
        blocks_per_plane: blocks,
        pages_per_block: pages,
        page_bytes: units_per_page * unit_bytes,
        unit_bytes,
    })
    .expect("valid")
}

fn info(geometry: Geometry, wear: WearConfig) -> ImageInfo {
    ImageInfo { geometry, wear, seed: 7, slc_bits: 0, power_on_ns: 0, config: "colour = \"blue\"".to_owned() }
}

fn create(info: &ImageInfo) -> (Disk, FileChip) {
    let layout = Layout::new(&info.geometry, info.config.len() as u32).expect("small");
    let disk = Disk::of(vec![0; layout.length as usize]);
    let chip = FileChip::on_blank(Box::new(disk.clone()), info.clone(), layout, Untimed::default())
        .expect("creates");
    (disk, chip)
}

fn open(bytes: Vec<u8>) -> Result<FileChip, ImageError> {
    FileChip::open_image(Image::on(Box::new(Disk::of(bytes)))?, Untimed::default())
}

#[derive(Clone, Debug)]
enum Step {
    Program { block: u32, units: Vec<(u32, u8)>, cause: usize },
    Meta { block: u32, bytes: Vec<u8>, cause: usize },
    Erase { block: u32, cause: usize },
    MarkBad { block: u32 },
}

fn steps(longest: usize) -> impl Strategy<Value = Vec<Step>> {
    let cause = 0..Cause::ALL.len();
    let program = (0..8u32, prop::collection::vec((0..20u32, 0..4u8), 1..9), cause.clone())
        .prop_map(|(block, units, cause)| Step::Program { block, units, cause });
    let meta = (0..8u32, prop::collection::vec(any::<u8>(), 0..1024), cause.clone())
        .prop_map(|(block, bytes, cause)| Step::Meta { block, bytes, cause });
    let erase = (0..8u32, cause).prop_map(|(block, cause)| Step::Erase { block, cause });
    let bad = (0..8u32).prop_map(|block| Step::MarkBad { block });
    prop::collection::vec(prop_oneof![20 => program, 4 => meta, 6 => erase, 1 => bad], 1..longest)
}

fn any_info() -> impl Strategy<Value = ImageInfo> {
    (1..6u32, 1..5u32, 1..5u32, prop::bool::ANY, 0..3u32, prop::bool::ANY).prop_map(
        |(blocks, pages, units, small, factory_bad_blocks, faulty)| {
            let wear = WearConfig {
                endurance_pe: faulty.then_some(3),
                factory_bad_blocks,
                program_fail_rate: if faulty { 0.2 } else { 0.0 },
            };
            info(geometry(blocks, pages, units, if small { 512 } else { 4096 }), wear)
        },
    )
}

fn apply(chip: &mut impl Nand<Payload = UnitBytes>, step: &Step, sequence: &mut u64) {
    let geometry = chip.geometry().clone();
    let target = |block: u32| BlockId::new(block % geometry.blocks());
    let next = |chip: &dyn Fn(BlockId) -> u32, block| geometry.pages_per_block() - chip(block);
    match step {
        Step::Program { block, units, cause } => {
            let block = target(*block);
            let free_bytes = next(&|b| chip.block(b).pages_programmed, block);
            if free_bytes == 0 || chip.block(block).bad {
                return;
            }
            let first = geometry.page(block, chip.block(block).pages_programmed);
            let units: Vec<Unit<UnitBytes>> = units
                .iter()
                .take((free_bytes * geometry.units_per_page()) as usize)
                .map(|&(lpn, content)| {
                    let payload = match content {
                        0 => UnitBytes::zero(),
                        stamp => {
                            UnitBytes::synthetic(*sequence * 64 + u64::from(stamp), geometry.unit_bytes())
                        }
                    };
                    Unit { lpn: Lpn::new(lpn), payload }
                })
                .collect();
            *sequence += 16;
            let _ = chip.program(T0, first, &units, *sequence, Cause::ALL[*cause]);
        }
        Step::Meta { block, bytes, cause } => {
            let block = target(*block);
            if next(&|b| chip.block(b).pages_programmed, block) == 0 || chip.block(block).bad {
                return;
            }
            let ppn = geometry.page(block, chip.block(block).pages_programmed);
            let bytes = &bytes[..bytes.len().min(geometry.page_bytes() as usize)];
            let _ = chip.program_meta(T0, ppn, bytes, Cause::ALL[*cause]);
        }
        Step::Erase { block, cause } => {
            if !chip.block(target(*block)).bad {
                let _ = chip.erase(T0, target(*block), Cause::ALL[*cause]);
            }
        }
        Step::MarkBad { block } => chip.mark_bad(target(*block)),
    }
}

fn compare<A, B>(a: &mut A, b: &mut B) -> Result<(), String>
where
    A: Nand<Payload = UnitBytes>,
    B: Nand<Payload = UnitBytes>,
{
    macro_rules! same {
        ($left:expr, $right:expr, $($what:tt)+) => {
            let (left, right) = ($left, $right);
            if left != right {
                return Err(format!("{}: {left:?} and {right:?}", format!($($what)+)));
            }
        };
    }
    let geometry = b.geometry().clone();
    same!(a.geometry(), &geometry, "geometry");
    for op in [NandOp::Program, NandOp::Erase] {
        for cause in Cause::ALL {
            same!(a.counts().get(op, cause), b.counts().get(op, cause), "{op:?} for {cause:?}");
        }
    }
    for block in (0..geometry.blocks()).map(BlockId::new) {
        same!(a.block(block).erase_count, b.block(block).erase_count, "erase count of {block:?}");
        same!(a.block(block).bad, b.block(block).bad, "badness of {block:?}");
        same!(a.block(block).half_erased, b.block(block).half_erased, "half-erasedness of {block:?}");
        same!(a.block(block).pages_programmed, b.block(block).pages_programmed, "pages of {block:?}");
        if b.block(block).half_erased {
            continue;
        }
        for page in 0..b.block(block).pages_programmed {
            let ppn = geometry.page(block, page);
            same!(a.record(ppn), b.record(ppn), "record of {ppn:?}");
            same!(verify_page(a, ppn), verify_page(b, ppn), "soundness of {ppn:?}");
            same!(
                a.read_meta(T0, ppn, Cause::Host).1,
                b.read_meta(T0, ppn, Cause::Host).1,
                "table in {ppn:?}"
            );
            for slot in 0..geometry.units_per_page() {
                let ppa = geometry.first_unit_of_page(ppn).plus(slot);
                same!(a.lpn(ppa), b.lpn(ppa), "owner of {ppa:?}");
                if b.lpn(ppa).is_some() {
                    same!(a.payload(ppa), b.payload(ppa), "content of {ppa:?}");
                }
            }
        }
    }
    same!(a.failure(), b.failure(), "failure");
    Ok(())
}
