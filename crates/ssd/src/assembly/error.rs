//! Reasons why a drive cannot be built.

use strobe_ftl::gc::{FormulaError, Kinetic};
use strobe_ftl::{BlockMapError, CapacityError, FtlError, RecoveryError, StreamLayout};
use strobe_nand::ImageError;
use strobe_types::GeometryError;

use crate::config::{NvramError, PLACEMENTS, POLICIES};
use crate::schema::KeyError;

/// Reason why a configuration describes no working drive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The geometry is impossible.
    #[error("drive.nand: {0}")]
    Geometry(#[from] GeometryError),
    /// Garbage collection could not make progress.
    #[error("{0}")]
    Capacity(#[from] CapacityError),
    /// A block-mapped scheme could not work.
    #[error("drive.ftl.mapping: {0}")]
    BlockMap(#[from] BlockMapError),
    /// A name is unknown, or a value is outside its documented range.
    #[error("{0}")]
    Key(Box<KeyError>),
    /// Logical copy without a page map.
    #[error(
        "drive.ftl.copy_mode is \"logical\", which drive.ftl.mapping = \"{0}\" does not support: only \"page\" and \"dftl\" do"
    )]
    LogicalCopy(String),
    /// Map pages with an unsuitable mapping scheme.
    #[error(
        "drive.ftl.durable_map is \"pages\", which drive.ftl.mapping = \"{0}\" does not support: \
         give drive.ftl.mapping = \"page\" or drive.ftl.durable_map = true"
    )]
    MapPages(String),
    /// A drive that cannot be aged without timing.
    #[error("drive.{key} is \"{given}\", but a drive that is aged without timing needs {needed}")]
    Aged {
        /// The key, below `drive`.
        key: &'static str,
        /// Value of the key.
        given: String,
        /// Value that the drive needs.
        needed: &'static str,
    },
    /// The drive wore out.
    #[error("the drive wore out while it was aged: {0}")]
    Worn(FtlError),
    /// No good block is left.
    #[error("drive.nand.factory_bad_blocks is {bad}, but the drive has only {blocks} blocks")]
    AllBad {
        /// Bad blocks configured.
        bad: u32,
        /// Blocks of the drive.
        blocks: u32,
    },
    /// A planned read error beyond the end of the drive.
    #[error("{key} is {given}, beyond the end of this drive: give 0 to {last}")]
    FaultBeyond {
        /// The key.
        key: String,
        /// Its value.
        given: u64,
        /// The largest value allowed.
        last: u64,
    },
    /// A planned read error without a place (unit or flash page), or with two.
    #[error(
        "drive.nand.faults.at[{at}] needs one place: unit (and units) for logical mapping units, or block and page for a \
         flash page"
    )]
    FaultPlace {
        /// Index of the fault in the list, from 0.
        at: usize,
    },
    /// Suspending takes longer than the operation that it suspends.
    #[error(
        "drive.nand.suspend: suspend_ns + resume_ns is {given} ns, a program takes {program} ns and an erase {erase} \
         ns: a suspend must take less than either; give shorter times, or drive.nand.suspend.most = 0"
    )]
    Suspend {
        /// Time of a suspend and a resume, in ns.
        given: u64,
        /// Time of a program, in ns.
        program: u64,
        /// Time of an erase, in ns.
        erase: u64,
    },
    /// No program or erase is long enough to be suspended.
    #[error(
        "drive.nand.suspend.least_left_ns is {given}, a program takes {program} ns and an erase {erase} ns: no \
         operation would ever be suspended; give less than the longer of the two, or drive.nand.suspend.most = 0"
    )]
    LeastLeft {
        /// Minimum remaining time, in ns.
        given: u64,
        /// Time of a program, in ns.
        program: u64,
        /// Time of an erase, in ns.
        erase: u64,
    },
    /// A number of page types that does not divide the pages per block.
    #[error(
        "drive.nand.{key} gives the times of {types} page types, but the {pages} pages of a block are not a multiple \
         of that: make drive.nand.pages_per_block a multiple of {types}, or give one time for all pages"
    )]
    PageTypes {
        /// The key, below `drive.nand`.
        key: &'static str,
        /// Page types given.
        types: u32,
        /// Pages per block.
        pages: u32,
    },
    /// Different numbers of page types for reads and programs.
    #[error(
        "drive.nand.read_ns gives the times of {reads} page types and program_ns of {programs}: give the same number \
         of times for both, or one time for all pages"
    )]
    PageTypesDiffer {
        /// Page types of read_ns.
        reads: u32,
        /// Page types of program_ns.
        programs: u32,
    },
    /// Blocks that do not consist of whole word lines.
    #[error(
        "drive.nand.pages_per_program is {parts}, but the {pages} pages of a block are not a multiple of that: make \
         drive.nand.pages_per_block a multiple of {parts}, or pages_per_program 1"
    )]
    WordLines {
        /// Flash pages per word line.
        parts: u32,
        /// Pages per block.
        pages: u32,
    },
    /// A list of program times with one-shot programming.
    #[error(
        "drive.nand.program_ns gives {types} times, but with drive.nand.pages_per_program = {parts} all pages of a word line \
         are programmed together: give one time for the word line, or pages_per_program = 1"
    )]
    WordLineTimes {
        /// Flash pages per word line.
        parts: u32,
        /// Times given.
        types: usize,
    },
    /// A drive that cannot use word lines.
    #[error(
        "drive.nand.pages_per_program is {parts}, which drive.{key} = {given} does not support: word lines need pages \
         programmed in order, and drive.ftl.mapping = \"page\" or \"dftl\"; otherwise give pages_per_program = 1"
    )]
    WordLinesIn {
        /// Flash pages per word line.
        parts: u32,
        /// The key, below `drive`.
        key: &'static str,
        /// Value of the key.
        given: String,
    },
    /// A watermark that the drive never reaches.
    #[error(
        "drive.ftl.gc.{key} is {blocks}, but the drive has only {spare} spare blocks, and free space never \
         exceeds them: give less, 0 to let the drive choose, or more drive.ftl.over_provisioning"
    )]
    Spare {
        /// The key of the watermark, below `drive.ftl.gc`.
        key: &'static str,
        /// Value of the watermark.
        blocks: u32,
        /// Spare blocks.
        spare: u32,
    },
    /// Placement handles on a block map.
    #[error(
        "drive.ftl.placement.scheme = \"handles\" needs drive.ftl.mapping = \"page\" or \"dftl\": {0} fills a block with the \
         sectors of one range of addresses, so the host cannot choose which data shares a block"
    )]
    HandlesIn(String),
    /// Persistently isolated handles on a drive that levels wear.
    #[error(
        "drive.ftl.placement.isolation = \"persistent\" needs drive.ftl.wear_leveling.kind = \"none\": wear levelling moves \
         the data of all handles to the same blocks; isolation = \"initial\" allows that"
    )]
    HandlesLeveled,
    /// Reclaim units that do not fit.
    #[error(
        "{handles} placement handles (drive.ftl.placement.handles), each with a reclaim unit of {unit_blocks} blocks on each \
         of {planes} planes (drive.ftl.placement.unit_blocks), need {wanted} blocks at the same time, but the drive has \
         only {spare} spare blocks: give fewer handles or smaller units, or more drive.ftl.over_provisioning"
    )]
    ReclaimUnits {
        /// Placement handles.
        handles: u8,
        /// Blocks of a reclaim unit on each plane.
        unit_blocks: u32,
        /// Planes of the drive.
        planes: u32,
        /// Blocks of one reclaim unit for every handle.
        wanted: u64,
        /// Spare blocks.
        spare: u32,
    },
    /// Reclaim groups that do not divide the dies.
    #[error(
        "drive.ftl.placement.groups is {groups}, but the {dies} dies of the drive (drive.nand.channels times \
         drive.nand.dies_per_channel) are not a multiple of that, {over} would be left over: give {below} or {above}"
    )]
    Groups {
        /// Reclaim groups.
        groups: u8,
        /// Dies of the drive.
        dies: u32,
        /// Dies left over.
        over: u32,
        /// Nearest smaller valid number.
        below: u32,
        /// Nearest larger valid number.
        above: u32,
    },
    /// More handles, over all reclaim groups, than streams.
    #[error(
        "{groups} reclaim groups (drive.ftl.placement.groups) of {handles} placement handles (drive.ftl.placement.handles) \
         make {}, at most {most} are allowed: give fewer", u32::from(*groups) * u32::from(*handles)
    )]
    HandlesOfGroups {
        /// Reclaim groups.
        groups: u8,
        /// Placement handles.
        handles: u8,
        /// Maximum number of handles of all groups together.
        most: u32,
    },
    /// A key that mixes the data of reclaim groups.
    #[error("drive.ftl.placement.groups above 1 needs {0}: give that, or one reclaim group")]
    GroupsWith(&'static str),
    /// More victims than blocks.
    #[error(
        "drive.ftl.gc.victims is {victims}, but the drive has only {blocks} good blocks; 0 lets the drive choose, one \
         for each die"
    )]
    Victims {
        /// Victims configured.
        victims: u32,
        /// Good blocks.
        blocks: u32,
    },
    /// A low watermark below its minimum.
    #[error(
        "drive.ftl.gc.low_watermark_blocks is {low}, it must be more than the {least} erased blocks that are always kept \
         (drive.ftl.gc.min_free_blocks, or what collection and wear levelling need); 0 lets the drive choose"
    )]
    LowWatermark {
        /// Low watermark.
        low: u32,
        /// Erased blocks that are always kept.
        least: u32,
    },
    /// A high watermark that is not above the low one.
    #[error(
        "drive.ftl.gc.high_watermark_blocks is {high}, it must be more than the {low} blocks of free space below which the host waits \
         (drive.ftl.gc.low_watermark_blocks); 0 lets the drive choose"
    )]
    HighWatermark {
        /// High watermark.
        high: u32,
        /// Low watermark.
        low: u32,
    },
    /// An SLC cache on a drive without a page map.
    #[error(
        "drive.ftl.slc_cache has blocks, which drive.ftl.mapping = \"{0}\" does not support: only \"page\" does; set its \
         static_blocks and dynamic_blocks to 0"
    )]
    SlcMapping(String),
    /// An SLC cache with map pages.
    #[error(
        "drive.ftl.slc_cache has blocks, which drive.ftl.durable_map = \"pages\" does not support: give \
         drive.ftl.durable_map = true, or set its static_blocks and dynamic_blocks to 0"
    )]
    SlcMapPages,
    /// An SLC cache on chips of single-level cells.
    #[error(
        "drive.ftl.slc_cache has blocks, but drive.nand.any_page_order is true, as on chips of single-level \
         cells: set its static_blocks and dynamic_blocks to 0, or any_page_order to false"
    )]
    SlcPageOrder,
    /// Pages per block that are not a multiple of the bits per cell.
    #[error(
        "drive.nand.slc.bits_per_cell (times pages_per_program) is {bits}, but the {pages} pages of a block are not a \
         multiple of that: make drive.nand.pages_per_block a multiple of {bits}, or correct bits_per_cell"
    )]
    SlcPages {
        /// Bits per cell, times pages per program.
        bits: u32,
        /// Pages per block.
        pages: u32,
    },
    /// More blocks in SLC mode than the drive has.
    #[error(
        "drive.ftl.slc_cache.{key} is {given}, but the drive has only {blocks} good blocks, and must have some in normal \
         mode: give less"
    )]
    SlcBlocks {
        /// The key.
        key: &'static str,
        /// Its value.
        given: u32,
        /// Good blocks.
        blocks: u32,
    },
    /// A fold_at above the size of the SLC cache.
    #[error(
        "drive.ftl.slc_cache.fold_at is {given}, but no more than {most} blocks are in SLC mode (static_blocks and \
         dynamic_blocks): give less, or 0 to fold only when needed"
    )]
    SlcFoldAt {
        /// Value of fold_at.
        given: u32,
        /// Blocks of the cache.
        most: u32,
    },
    /// The victim policy is neither a name nor a formula.
    #[error("drive.ftl.gc.victim: {0}; policies with a name are {names}", names = policy_names())]
    Victim(#[from] FormulaError),
    /// The placement is neither a name nor a formula.
    #[error(
        "drive.ftl.placement.scheme: {0}; schemes with a name are {names}",
        names = PLACEMENTS.iter().map(|placement| placement.name).collect::<Vec<_>>().join(", ")
    )]
    Placement(FormulaError),
    /// The scheme fk without a known future.
    #[error(
        "drive.ftl.placement.scheme = \"fk\" places units by the time of their next write, which only a trace gives in advance: \
         it needs workload.kind = \"trace\" (strobe replay), on a new drive in memory; a generator, program, guest or \
         interactive drive, an image and an aged drive have no known future, so give another scheme, such as \"sepbit\""
    )]
    NoFuture,
    /// A custom placement with impossible streams.
    #[error(
        "the custom placement has {host} host streams, and streams {first} to below {end} for relocated units; \
         it must have at least one of each, and at most {most} in all", most = StreamLayout::MOST
    )]
    Streams {
        /// Streams of the host.
        host: u8,
        /// First stream of relocated units.
        first: u8,
        /// End of the streams of relocated units.
        end: u8,
    },
    /// A victim policy for a block-mapped scheme.
    #[error(
        "drive.ftl.mapping is \"{0}\", which merges blocks and uses no victim policy: only \"page\" and \"dftl\" do"
    )]
    NoVictims(String),
    /// A block with too many units for exact scores.
    #[error(
        "a block has {0} mapping units; this victim policy takes at most {max}: use a larger \
         mapping_unit_bytes, fewer pages_per_block, or greedy, fifo, random or d-choices",
        max = Kinetic::UNITS_PER_BLOCK_MAX
    )]
    BlockTooLarge(u32),
    /// An invalid configuration of the non-volatile write cache.
    #[error("drive.controller.nvram: {0}")]
    Nvram(#[from] NvramError),
    /// The image cannot be used, or not for this drive.
    #[error("image {path}: {error}")]
    Image {
        /// The file.
        path: String,
        /// Reason.
        error: ImageProblem,
    },
    /// The drive could not be recovered from its flash.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// A capacity of 0, or above the maximum.
    #[error("drive.ftl.logical_pages is {0}, it must be between 1 and {max}", max = u32::MAX - 1)]
    LogicalPages(u64),
}

impl From<KeyError> for BuildError {
    fn from(error: KeyError) -> Self {
        Self::Key(Box::new(error))
    }
}

fn policy_names() -> String {
    POLICIES.iter().map(|policy| policy.name).collect::<Vec<_>>().join(", ")
}

/// Reason why an image cannot be used for a drive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageProblem {
    /// The image file cannot be used.
    #[error(transparent)]
    File(#[from] ImageError),
    /// A value that a drive on an image does not support.
    #[error("{key} must be {needed} for a drive on an image")]
    Key {
        /// The configuration key.
        key: &'static str,
        /// Allowed value.
        needed: &'static str,
    },
    /// The image holds a drive of another kind.
    #[error(
        "it opens only as the drive that it was made for: give that with --drive, or in [drive] of the experiment; {0}"
    )]
    Unlike(String),
    /// The configuration in the image cannot be read.
    #[error("the configuration in it cannot be read: {0}")]
    Config(String),
    /// The medium has failed.
    #[error("{0}")]
    Failed(String),
}
