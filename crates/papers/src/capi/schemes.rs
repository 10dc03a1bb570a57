//! The compared schemes: each a point in the space of policies.

use strobe_ssd::{AllocationName, GcStreamName, MigrationName, TemperatureName, WearLevelingName};

/// A scheme of garbage collection, in the terms of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scheme {
    pub(super) label: &'static str,
    pub(super) victim: &'static str,
    pub(super) migration: MigrationName,
    pub(super) temperature: TemperatureName,
    pub(super) stream: GcStreamName,
    pub(super) allocation: AllocationName,
    pub(super) net_blocks: u32,
    /// Kind of static wear levelling, and its threshold in percent of the endurance, so that drives
    /// of less endurance behave alike.
    pub(super) leveling: (WearLevelingName, u32),
}

/// What every scheme starts from.
const PLAIN: Scheme = Scheme {
    label: "",
    victim: "greedy",
    migration: MigrationName::None,
    temperature: TemperatureName::UpdateCount,
    stream: GcStreamName::Host,
    allocation: AllocationName::Fifo,
    net_blocks: NET_BLOCKS_OTHERS,
    leveling: (WearLevelingName::None, 10),
};

/// Blocks that one collection gains with CAPi. The paper does not say; its idea, to sort the data
/// of several victims together, needs more than one, and two come nearest to its results.
const NET_BLOCKS_CAPI: u32 = 2;

/// The same for the schemes that handle one victim after the other.
const NET_BLOCKS_OTHERS: u32 = 1;

/// Label of the scheme that the others are compared with.
pub(super) const CAPI: &str = "CAPi";

/// The schemes as the paper describes them, in its Table 1 where text and table disagree.
pub(super) const PAPER: &[Scheme] = &[
    Scheme { label: "GA", ..PLAIN },
    Scheme { label: "CB", victim: "cost-benefit", ..PLAIN },
    CAT,
    FEGC,
    CAPI_SCHEME,
    // The paper's text lets CAT open the least worn block, its Table 1 the one erased first.
    Scheme { label: "CAT, least-erased", allocation: AllocationName::LeastErased, ..CAT },
    // In its Table 1 only.
    Scheme {
        label: "SCATA",
        victim: "scata",
        migration: MigrationName::HotCold,
        temperature: TemperatureName::LastWrite,
        ..PLAIN
    },
];

const CAT: Scheme = Scheme {
    label: "CAT",
    victim: "cat",
    migration: MigrationName::HotCold,
    temperature: TemperatureName::UpdateRate,
    ..PLAIN
};

const FEGC: Scheme = Scheme {
    label: "FeGC",
    victim: "fegc",
    migration: MigrationName::HotCold,
    temperature: TemperatureName::UpdateRate,
    allocation: AllocationName::Adaptive,
    ..PLAIN
};

const CAPI_SCHEME: Scheme = Scheme {
    label: CAPI,
    victim: "capi",
    migration: MigrationName::Sorted,
    allocation: AllocationName::LeastErased,
    net_blocks: NET_BLOCKS_CAPI,
    ..PLAIN
};

/// What all get where nobody is to be at a disadvantage. Tried were all migrations, with the
/// temperatures of their authors, and both streams at three data sets; the longest lifetime counts.
const FAIR_PLAIN: Scheme = Scheme {
    migration: MigrationName::Sorted,
    allocation: AllocationName::LeastErased,
    net_blocks: NET_BLOCKS_CAPI,
    ..PLAIN
};

/// Every policy with the migration and the stream that suit it best.
pub(super) const FAIR: &[Scheme] = &[
    // Greedy collects the same few blocks again and again if whole blocks of cold data are kept
    // apart from them.
    Scheme {
        label: "GA",
        migration: MigrationName::HotCold,
        temperature: TemperatureName::UpdateRate,
        net_blocks: 1,
        ..FAIR_PLAIN
    },
    Scheme { label: "CB", victim: "cost-benefit", stream: GcStreamName::Own, ..FAIR_PLAIN },
    Scheme { label: "CAT", victim: "cat", ..FAIR_PLAIN },
    Scheme { label: "FeGC", victim: "fegc", ..FAIR_PLAIN },
    Scheme { label: CAPI, victim: "capi", ..FAIR_PLAIN },
];

/// Combinations that the paper does not consider: static wear levelling, which it leaves to future
/// work, and what that does for its weakest and strongest schemes.
pub(super) const BEYOND: &[Scheme] = &[
    CAPI_SCHEME,
    Scheme { label: "CAPi+, swap", leveling: (WearLevelingName::Swap, 4), ..CAPI_PLUS },
    Scheme { label: "CAPi+, dual-pool", leveling: (WearLevelingName::DualPool, 4), ..CAPI_PLUS },
    Scheme { label: "CAPi+, SW Leveler", leveling: (WearLevelingName::SwLeveler, 4), ..CAPI_PLUS },
    Scheme { label: "FeGC, dual-pool", leveling: (WearLevelingName::DualPool, 4), ..FEGC },
    Scheme { label: "GA, swap", leveling: (WearLevelingName::Swap, 4), ..PLAIN },
];

/// CAPi with larger batches, which sort better, and FeGC's allocation, which puts cold data on worn
/// blocks where CAPi parks it on the youngest.
const CAPI_PLUS: Scheme = Scheme { net_blocks: 4, allocation: AllocationName::Adaptive, ..CAPI_SCHEME };
