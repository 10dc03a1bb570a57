//! Why there is no drive.

use strobe_ftl::gc::{FormulaError, Kinetic};
use strobe_ftl::{BlockMapError, CapacityError, FtlError, RecoveryError, StreamLayout};
use strobe_nand::ImageError;
use strobe_types::GeometryError;

use crate::config::{NvramError, PLACEMENTS, POLICIES};
use crate::schema::KeyError;

/// Why a configuration describes no drive that works.
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
    /// A name is not known, or a value outside its documented range.
    #[error("{0}")]
    Key(Box<KeyError>),
    /// Logical copy needs a map of pages.
    #[error(
        "drive.ftl.copy_mode is \"logical\", which drive.ftl.mapping = \"{0}\" cannot do: only \"page\" and \"dftl\" can"
    )]
    LogicalCopy(String),
    /// Collection in the background fills any die.
    #[error(
        "drive.ftl.die_allocation is \"by-address\", which needs drive.ftl.gc.mode = \"stop-the-world\": collection in the \
         background counts on the next die that is free"
    )]
    ByAddress,
    /// Another mapping scheme has no map pages, or keeps its map in some in any case.
    #[error(
        "drive.ftl.durable_map is \"pages\", which drive.ftl.mapping = \"{0}\" cannot have: \
         give drive.ftl.mapping = \"page\" or drive.ftl.durable_map = true"
    )]
    MapPages(String),
    /// A drive of another kind is needed to be written before it has times.
    #[error("drive.{key} is \"{given}\": to be written before it has times, a drive needs {needed}")]
    Aged {
        /// The key, below `drive`.
        key: &'static str,
        /// Its value.
        given: String,
        /// Value that it needs.
        needed: &'static str,
    },
    /// It has worn out.
    #[error("the drive wore out while it was aged: {0}")]
    Worn(FtlError),
    /// No good block is left.
    #[error("drive.nand.factory_bad_blocks is {bad}, but the drive has only {blocks} blocks")]
    AllBad {
        /// Bad blocks asked for.
        bad: u32,
        /// Blocks of the drive.
        blocks: u32,
    },
    /// A planned read error is beyond the drive.
    #[error("{key} is {given}, but the last one of this drive is {last}: give 0 to {last}")]
    FaultBeyond {
        /// The key.
        key: String,
        /// Its value.
        given: u64,
        /// The largest value allowed.
        last: u64,
    },
    /// A planned read error has no place, or two.
    #[error(
        "drive.nand.faults.at[{at}] needs one place: unit (and units) for logical mapping units, or block and page for a \
         flash page"
    )]
    FaultPlace {
        /// Its number, from 0.
        at: usize,
    },
    /// Suspending takes longer than what is suspended.
    #[error(
        "drive.nand.suspend: suspend_ns + resume_ns is {given} ns, a program takes {program} ns and an erase {erase} \
         ns: suspending must take less than either, or be off (drive.nand.suspend.most = 0)"
    )]
    Suspend {
        /// Time of a suspend and a resume, in ns.
        given: u64,
        /// Time of a program, in ns.
        program: u64,
        /// Time of an erase, in ns.
        erase: u64,
    },
    /// Nothing has so much left that it would be suspended.
    #[error(
        "drive.nand.suspend.least_left_ns is {given}, a program takes {program} ns and an erase {erase} ns: with no more \
         than that left nothing is suspended; give less than the longer one, or drive.nand.suspend.most = 0"
    )]
    LeastLeft {
        /// Time left, in ns.
        given: u64,
        /// Time of a program, in ns.
        program: u64,
        /// Time of an erase, in ns.
        erase: u64,
    },
    /// Page types that blocks do not have.
    #[error(
        "drive.nand.{key} gives the times of {types} page types, and the {pages} pages of a block do not divide by that: \
         make drive.nand.pages_per_block a multiple of {types}, or give one time for all pages"
    )]
    PageTypes {
        /// The key, below `drive.nand`.
        key: &'static str,
        /// Page types given.
        types: u32,
        /// Pages of a block.
        pages: u32,
    },
    /// As many page types for reads as for programs, or one time for all.
    #[error(
        "drive.nand.read_ns gives the times of {reads} page types and program_ns those of {programs}: give as many of \
         both, or one time for all pages"
    )]
    PageTypesDiffer {
        /// Types of reads.
        reads: u32,
        /// Types of programs.
        programs: u32,
    },
    /// Blocks that are not made of whole word lines.
    #[error(
        "drive.nand.pages_per_program is {parts}, and the {pages} pages of a block do not divide by that: make \
         drive.nand.pages_per_block a multiple of {parts}, or pages_per_program 1"
    )]
    WordLines {
        /// Flash pages of a word line.
        parts: u32,
        /// Pages of a block.
        pages: u32,
    },
    /// Several times for one program.
    #[error(
        "drive.nand.program_ns gives {types} times, but with drive.nand.pages_per_program = {parts} all pages of a word line \
         are programmed in one: give one time, that of the word line, or pages_per_program = 1"
    )]
    WordLineTimes {
        /// Flash pages of a word line.
        parts: u32,
        /// Times given.
        types: usize,
    },
    /// A drive that cannot make use of word lines.
    #[error(
        "drive.nand.pages_per_program is {parts}, which drive.{key} = {given} cannot do: word lines need pages programmed in \
         order, and drive.ftl.mapping = \"page\" or \"dftl\"; else pages_per_program is 1"
    )]
    WordLinesIn {
        /// Flash pages of a word line.
        parts: u32,
        /// The key, below `drive`.
        key: &'static str,
        /// Its value.
        given: String,
    },
    /// A mark that the drive never reaches.
    #[error(
        "drive.ftl.gc.{key} is {blocks}, but only {spare} blocks are more than what the drive offers: there is never \
         room for so many; give less, 0 to let the drive choose, or more drive.ftl.over_provisioning"
    )]
    Spare {
        /// The key of the watermark, below `drive.ftl.gc`.
        key: &'static str,
        /// Its value.
        blocks: u32,
        /// Good blocks beyond those that the logical units fill.
        spare: u32,
    },
    /// Placement handles on a block map.
    #[error(
        "drive.ftl.placement.scheme = \"handles\" needs drive.ftl.mapping = \"page\" or \"dftl\": {0} fills a block with the \
         sectors of one range of addresses, so the host cannot choose what shares a block"
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
         of {planes} planes (drive.ftl.placement.unit_blocks), need {wanted} blocks at a time, but the drive has only \
         {spare} good blocks more than what it offers: give fewer or smaller ones, or more drive.ftl.over_provisioning"
    )]
    ReclaimUnits {
        /// Placement handles.
        handles: u8,
        /// Blocks of a unit on each plane.
        unit_blocks: u32,
        /// Planes of the drive.
        planes: u32,
        /// Blocks of a unit for each handle.
        wanted: u64,
        /// Good blocks beyond those that the logical units fill.
        spare: u32,
    },
    /// Reclaim groups that do not divide the dies.
    #[error(
        "drive.ftl.placement.groups is {groups}, but the {dies} dies of the drive (drive.nand.channels times \
         drive.nand.dies_per_channel) do not divide by that, {over} would be left over: give {below} or {above}"
    )]
    Groups {
        /// Reclaim groups.
        groups: u8,
        /// Dies of the drive.
        dies: u32,
        /// Dies left over.
        over: u32,
        /// The nearest numbers of groups that divide the dies.
        below: u32,
        /// The nearest one above, if there is one.
        above: u32,
    },
    /// More handles in all reclaim groups than there are streams.
    #[error(
        "{groups} reclaim groups (drive.ftl.placement.groups) of {handles} placement handles (drive.ftl.placement.handles) \
         make {}, at most {most} are allowed: give fewer", u32::from(*groups) * u32::from(*handles)
    )]
    HandlesOfGroups {
        /// Reclaim groups.
        groups: u8,
        /// Placement handles.
        handles: u8,
        /// Most of all groups together.
        most: u32,
    },
    /// A key that mixes the data of reclaim groups.
    #[error("drive.ftl.placement.groups above 1 needs {0}: give that, or one reclaim group")]
    GroupsWith(&'static str),
    /// More victims than there can be.
    #[error(
        "drive.ftl.gc.victims is {victims}, but the drive has only {blocks} good blocks; 0 lets the drive choose, one \
         for each die"
    )]
    Victims {
        /// Victims asked for.
        victims: u32,
        /// Good blocks.
        blocks: u32,
    },
    /// The host would wait when there is nothing to wait for.
    #[error(
        "drive.ftl.gc.pace_blocks is {pace}, it must be more than the {least} erased blocks that are always kept \
         (drive.ftl.gc.min_free_blocks, or what collection and wear levelling need); 0 lets the drive choose"
    )]
    Pace {
        /// The mark given.
        pace: u32,
        /// Blocks that are kept.
        least: u32,
    },
    /// Collection would begin after the host has begun to wait for it.
    #[error(
        "drive.ftl.gc.soft_blocks is {soft}, it must be more than the {pace} blocks of room below which the host waits \
         (drive.ftl.gc.pace_blocks); 0 lets the drive choose"
    )]
    Soft {
        /// The mark given.
        soft: u32,
        /// The mark below it.
        pace: u32,
    },
    /// An SLC cache on a drive that maps in another way.
    #[error(
        "drive.ftl.slc_cache has blocks, which drive.ftl.mapping = \"{0}\" cannot use: only \"page\" can; set its \
         static_blocks and dynamic_blocks to 0"
    )]
    SlcMapping(String),
    /// An SLC cache with map pages.
    #[error(
        "drive.ftl.slc_cache has blocks, which drive.ftl.durable_map = \"pages\" cannot have: give \
         drive.ftl.durable_map = true, or set its static_blocks and dynamic_blocks to 0"
    )]
    SlcMapPages,
    /// An SLC cache on chips of single-level cells.
    #[error(
        "drive.ftl.slc_cache has blocks, but drive.nand.any_page_order is true, as on chips whose cells hold one bit \
         anyway: set its static_blocks and dynamic_blocks to 0, or any_page_order to false"
    )]
    SlcPageOrder,
    /// Blocks that do not divide into pages of all bits of their cells.
    #[error(
        "drive.nand.slc.bits_per_cell (times pages_per_program) is {bits}, and the {pages} pages of a block do not divide \
         by that: make drive.nand.pages_per_block a multiple of {bits}, or set the bits of these chips"
    )]
    SlcPages {
        /// Bits of a cell, times pages of a program.
        bits: u32,
        /// Pages of a block.
        pages: u32,
    },
    /// More blocks in SLC mode than there are.
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
    /// Folding would begin when there cannot be so much to fold.
    #[error(
        "drive.ftl.slc_cache.fold_at is {given}, but no more than {most} blocks are in SLC mode (static_blocks and \
         dynamic_blocks): give less, or 0 to fold only when there is need"
    )]
    SlcFoldAt {
        /// The mark given.
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
    /// Placement by the future, where nobody knows it.
    #[error(
        "drive.ftl.placement.scheme = \"fk\" places units by the time of their next write, which only a trace tells beforehand: \
         it needs workload.kind = \"trace\" (strobe replay), on a new drive in memory; a generator, program, guest or \
         interactive drive, an image and an aged drive have no known future, so give another scheme, such as \"sepbit\""
    )]
    NoFuture,
    /// A placement of your own has streams that no drive has.
    #[error(
        "a placement of your own has {host} streams of the host, and {first} to below {end} for relocated units; \
         it must have at least one of each, and {most} at most", most = StreamLayout::MOST
    )]
    Streams {
        /// Streams of the host.
        host: u8,
        /// First stream of relocated units.
        first: u8,
        /// The stream behind the last one.
        end: u8,
    },
    /// A victim policy was given to a scheme that has no use for one.
    #[error(
        "drive.ftl.mapping is \"{0}\", which merges blocks and asks no victim policy: only \"page\" and \"dftl\" do"
    )]
    NoVictims(String),
    /// Scores of this policy might not fit their integers.
    #[error(
        "a block has {0} mapping units; this victim policy takes at most {max}: use a larger \
         mapping_unit_bytes, fewer pages_per_block, or greedy, fifo, random or d-choices",
        max = Kinetic::UNITS_PER_BLOCK_MAX
    )]
    BlockTooLarge(u32),
    /// The non-volatile write cache makes no sense.
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
    /// The drive could not be found again on its flash.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// The drive offers no space, or more than it can number.
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

/// Why an image cannot be used for a drive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageProblem {
    /// The file itself.
    #[error(transparent)]
    File(#[from] ImageError),
    /// A key has a value that rules an image out.
    #[error("{key} must be {needed} for a drive on an image")]
    Key {
        /// The configuration key.
        key: &'static str,
        /// Allowed value, with the reason.
        needed: &'static str,
    },
    /// The image holds a drive of another kind.
    #[error(
        "it opens as the drive that it was made for: name that with --drive, or in [drive] of the experiment; {0}"
    )]
    Unlike(String),
    /// The configuration in the image is not one that this version knows.
    #[error("the configuration in it cannot be read: {0}")]
    Config(String),
    /// Nothing can be kept in it any more.
    #[error("{0}")]
    Failed(String),
}
