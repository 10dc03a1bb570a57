//! Compared schemes as combinations of policies.

use strobe_ssd::{Allocation, GcStream, SchemeName, Temperature, WearLevelingName};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scheme {
    pub(super) label: &'static str,
    pub(super) victim: &'static str,
    pub(super) placement: SchemeName,
    pub(super) temperature: Temperature,
    pub(super) stream: GcStream,
    pub(super) allocation: Allocation,
    pub(super) net_blocks: u32,
    /// True if a collection leaves the rest of its destination blocks unused.
    pub(super) pad_moved: bool,
    /// Static wear levelling and its threshold in percent of the endurance, so drives of lower endurance behave
    /// alike.
    pub(super) leveling: (WearLevelingName, u32),
}

/// Blocks reclaimed per collection; the paper does not give it.
///
/// The paper used Microsoft's SSD extension of DiskSim. Its `ssd_clean` starts at the low watermark of free
/// blocks and stops above the watermark plus one: two blocks for any policy.
const NET_BLOCKS: u32 = 2;

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

pub(super) const CAPI: &str = "CAPi";

/// Schemes of the paper; Table 1 decides where text and table disagree.
pub(super) const PAPER: &[Scheme] = &[
    GA,
    CB,
    CAT,
    FEGC,
    CAPI_SCHEME,
    // By the text, CAT opens the least worn block; by Table 1, the block erased first.
    Scheme { label: "CAT, least-erased", allocation: Allocation::LeastErased, ..CAT },
    // SCATA is only in Table 1.
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

/// §II.2: hot and cold pages of a victim go to empty blocks, not to the host's open block.
const CAT: Scheme = Scheme {
    label: "CAT",
    victim: "cat",
    placement: SchemeName::HotCold,
    temperature: Temperature::UpdateRate,
    stream: GcStream::Own,
    ..PLAIN
};

/// As CAT, but by §IV.2 FeGC has no active block, and writes cold pages to blocks erased more than average.
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

/// Interpretation of the paper: the schemes that differ from [`PAPER`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) name: &'static str,
    pub(super) differs: &'static [Scheme],
}

pub(super) const READINGS: &[Reading] = &[
    Reading { name: "as in figure 4", differs: &[] },
    Reading {
        name: "host's blocks for CAT, FeGC",
        differs: &[Scheme { stream: GcStream::Host, ..CAT }, Scheme { stream: GcStream::Host, ..FEGC }],
    },
    Reading {
        name: "host's blocks; 1 block per collection except CAPi",
        differs: &[
            Scheme { net_blocks: 1, ..GA },
            Scheme { net_blocks: 1, ..CB },
            Scheme { net_blocks: 1, stream: GcStream::Host, ..CAT },
            Scheme { net_blocks: 1, stream: GcStream::Host, ..FEGC },
        ],
    },
    Reading {
        name: "1 block per collection for all",
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
    // §IV.2 allows this reading: without an active block each collection starts with empty blocks.
    Reading { name: "FeGC closes its blocks", differs: &[Scheme { pad_moved: true, ..FEGC }] },
    Reading {
        name: "CAT opens the least worn",
        differs: &[Scheme { allocation: Allocation::LeastErased, ..CAT }],
    },
];

/// Settings that disadvantage no scheme. Each scheme has the settings with the longest lifetime on three data
/// sets, among all migrations, with their authors' temperatures, and both streams.
const FAIR_PLAIN: Scheme =
    Scheme { placement: SchemeName::Sorted, allocation: Allocation::LeastErased, ..PLAIN };

pub(super) const FAIR: &[Scheme] = &[
    // If full blocks of cold data are kept apart, greedy collects the same few blocks over and over.
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

pub(super) const CAPI_SWAP: &str = "CAPi, swap";
pub(super) const CAPI_UNSORTED: &str = "CAPi, unsorted";
pub(super) const CAPI_BY_CB: &str = "CAPi, CB's score";

/// CAPi, then CAPi without each of its two reasons for fewer copies.
pub(super) const PARTS: &[Scheme] = &[
    CAPI_SCHEME,
    Scheme { label: CAPI_UNSORTED, placement: SchemeName::None, ..CAPI_SCHEME },
    Scheme { label: CAPI_BY_CB, victim: "cost-benefit", ..CAPI_SCHEME },
];

/// Combinations not in the paper: static wear levelling, which the paper leaves to future work, on the
/// weakest and strongest schemes.
pub(super) const BEYOND: &[Scheme] = &[
    CAPI_SCHEME,
    Scheme { label: CAPI_SWAP, leveling: (WearLevelingName::Swap, 4), ..CAPI_SCHEME },
    Scheme { label: "CAPi+, swap", leveling: (WearLevelingName::Swap, 4), ..CAPI_PLUS },
    Scheme { label: "CAPi+, dual-pool", leveling: (WearLevelingName::DualPool, 4), ..CAPI_PLUS },
    Scheme { label: "CAPi+, SW Leveler", leveling: (WearLevelingName::SwLeveler, 4), ..CAPI_PLUS },
    Scheme { label: "FeGC, dual-pool", leveling: (WearLevelingName::DualPool, 4), ..FEGC },
    Scheme { label: "GA, swap", leveling: (WearLevelingName::Swap, 4), ..PLAIN },
];

/// CAPi with larger batches, which sort better, and adaptive allocation, which puts cold data on worn blocks
/// instead of the least worn.
const CAPI_PLUS: Scheme = Scheme { net_blocks: 4, allocation: Allocation::Adaptive, ..CAPI_SCHEME };
