//! The compared schemes: each a point in the space of policies.

use strobe_ssd::{Allocation, GcStream, SchemeName, Temperature, WearLevelingName};

/// A scheme of garbage collection, in the terms of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scheme {
    pub(super) label: &'static str,
    pub(super) victim: &'static str,
    pub(super) placement: SchemeName,
    pub(super) temperature: Temperature,
    pub(super) stream: GcStream,
    pub(super) allocation: Allocation,
    pub(super) net_blocks: u32,
    /// True if the rest of the blocks that a collection moved data to is lost.
    pub(super) pad_moved: bool,
    /// Kind of static wear levelling, and its threshold in percent of the endurance, so that drives
    /// of less endurance behave alike.
    pub(super) leveling: (WearLevelingName, u32),
}

/// Blocks that one collection gains. The paper does not say. Microsoft's SSD extension of DiskSim, on which it ran,
/// begins to clean when no more than the low mark of blocks is free and stops when more than one above it are (its
/// `ssd_clean`): two blocks at a time, whatever the policy.
const NET_BLOCKS: u32 = 2;

/// Common base of all schemes.
const PLAIN: Scheme = Scheme {
    label: "",
    victim: "greedy",
    placement: SchemeName::None,
    temperature: Temperature::UpdateCount,
    stream: GcStream::Host,
    allocation: Allocation::Fifo,
    net_blocks: NET_BLOCKS,
    pad_moved: false,
    leveling: (WearLevelingName::None, 10),
};

/// Label of the scheme that the others are compared with.
pub(super) const CAPI: &str = "CAPi";

/// The schemes as the paper describes them, in its Table 1 where text and table disagree.
pub(super) const PAPER: &[Scheme] = &[
    GA,
    CB,
    CAT,
    FEGC,
    CAPI_SCHEME,
    // The paper's text lets CAT open the least worn block, its Table 1 the one erased first.
    Scheme { label: "CAT, least-erased", allocation: Allocation::LeastErased, ..CAT },
    // In its Table 1 only.
    Scheme {
        label: "SCATA",
        victim: "scata",
        placement: SchemeName::HotCold,
        temperature: Temperature::LastWrite,
        stream: GcStream::Own,
        ..PLAIN
    },
];

const GA: Scheme = Scheme { label: "GA", ..PLAIN };
const CB: Scheme = Scheme { label: "CB", victim: "cost-benefit", ..PLAIN };

/// §II.2: hot and cold pages of a victim go to empty blocks, not to the one that the host writes to.
const CAT: Scheme = Scheme {
    label: "CAT",
    victim: "cat",
    placement: SchemeName::HotCold,
    temperature: Temperature::UpdateRate,
    stream: GcStream::Own,
    ..PLAIN
};

/// FeGC, as above and in §IV.2: it does without the active block; cold pages go to blocks erased more often than the average.
const FEGC: Scheme = Scheme {
    label: "FeGC",
    victim: "fegc",
    placement: SchemeName::HotCold,
    temperature: Temperature::UpdateRate,
    stream: GcStream::Own,
    allocation: Allocation::AboveAverage,
    ..PLAIN
};

const CAPI_SCHEME: Scheme = Scheme {
    label: CAPI,
    victim: "capi",
    placement: SchemeName::Sorted,
    allocation: Allocation::LeastErased,
    ..PLAIN
};

/// A way to read what the paper leaves open: the schemes that it makes different from [`PAPER`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) name: &'static str,
    pub(super) differs: &'static [Scheme],
}

/// Sensitivity to each choice that the paper leaves open.
pub(super) const READINGS: &[Reading] = &[
    Reading { name: "as in figure 4", differs: &[] },
    Reading {
        name: "host's blocks for CAT, FeGC",
        differs: &[Scheme { stream: GcStream::Host, ..CAT }, Scheme { stream: GcStream::Host, ..FEGC }],
    },
    Reading {
        name: "that, and 1 block a time but CAPi",
        differs: &[
            Scheme { net_blocks: 1, ..GA },
            Scheme { net_blocks: 1, ..CB },
            Scheme { net_blocks: 1, stream: GcStream::Host, ..CAT },
            Scheme { net_blocks: 1, stream: GcStream::Host, ..FEGC },
        ],
    },
    Reading {
        name: "1 block a time for all",
        differs: &[
            Scheme { net_blocks: 1, ..GA },
            Scheme { net_blocks: 1, ..CB },
            Scheme { net_blocks: 1, ..CAT },
            Scheme { net_blocks: 1, ..FEGC },
            Scheme { net_blocks: 1, ..CAPI_SCHEME },
        ],
    },
    Reading {
        name: "FeGC opens the least worn",
        differs: &[Scheme { allocation: Allocation::LeastErased, ..FEGC }],
    },
    Reading {
        name: "FeGC's cold data on the most worn",
        differs: &[Scheme { allocation: Allocation::Adaptive, ..FEGC }],
    },
    // §IV.2 can be read so: without an active block, each collection begins with empty ones.
    Reading { name: "FeGC closes its blocks", differs: &[Scheme { pad_moved: true, ..FEGC }] },
    Reading {
        name: "CAT opens the least worn",
        differs: &[Scheme { allocation: Allocation::LeastErased, ..CAT }],
    },
];

/// Choices that put no scheme at a disadvantage. Tried were all migrations, with the
/// temperatures of their authors, and both streams at three data sets; the longest lifetime counts.
const FAIR_PLAIN: Scheme =
    Scheme { placement: SchemeName::Sorted, allocation: Allocation::LeastErased, ..PLAIN };

/// Every policy with the migration and the stream that suit it best.
pub(super) const FAIR: &[Scheme] = &[
    // Greedy collects the same few blocks again and again if whole blocks of cold data are kept
    // apart from them.
    Scheme {
        label: "GA",
        placement: SchemeName::HotCold,
        temperature: Temperature::UpdateRate,
        net_blocks: 1,
        ..FAIR_PLAIN
    },
    Scheme { label: "CB", victim: "cost-benefit", stream: GcStream::Own, ..FAIR_PLAIN },
    Scheme { label: "CAT", victim: "cat", ..FAIR_PLAIN },
    Scheme { label: "FeGC", victim: "fegc", ..FAIR_PLAIN },
    Scheme { label: CAPI, victim: "capi", ..FAIR_PLAIN },
];

/// CAPi with static wear levelling, which the paper says would help.
pub(super) const CAPI_SWAP: &str = "CAPi, swap";
pub(super) const CAPI_UNSORTED: &str = "CAPi, unsorted";
pub(super) const CAPI_BY_CB: &str = "CAPi, CB's score";

/// CAPi without one of the two that it is to copy less by.
pub(super) const PARTS: &[Scheme] = &[
    CAPI_SCHEME,
    Scheme { label: CAPI_UNSORTED, placement: SchemeName::None, ..CAPI_SCHEME },
    Scheme { label: CAPI_BY_CB, victim: "cost-benefit", ..CAPI_SCHEME },
];

/// Combinations that the paper does not consider: static wear levelling, which it leaves to future
/// work, and what that does for its weakest and strongest schemes.
pub(super) const BEYOND: &[Scheme] = &[
    CAPI_SCHEME,
    Scheme { label: CAPI_SWAP, leveling: (WearLevelingName::Swap, 4), ..CAPI_SCHEME },
    Scheme { label: "CAPi+, swap", leveling: (WearLevelingName::Swap, 4), ..CAPI_PLUS },
    Scheme { label: "CAPi+, dual-pool", leveling: (WearLevelingName::DualPool, 4), ..CAPI_PLUS },
    Scheme { label: "CAPi+, SW Leveler", leveling: (WearLevelingName::SwLeveler, 4), ..CAPI_PLUS },
    Scheme { label: "FeGC, dual-pool", leveling: (WearLevelingName::DualPool, 4), ..FEGC },
    Scheme { label: "GA, swap", leveling: (WearLevelingName::Swap, 4), ..PLAIN },
];

/// CAPi with larger batches, which sort better, and FeGC's allocation, which puts cold data on worn
/// blocks where CAPi parks it on the youngest.
const CAPI_PLUS: Scheme = Scheme { net_blocks: 4, allocation: Allocation::Adaptive, ..CAPI_SCHEME };
