//! The compared schemes: each a point in the space of policies.

/// A scheme of garbage collection, by the names of the configuration keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scheme {
    pub(super) label: &'static str,
    pub(super) victim: &'static str,
    pub(super) migration: &'static str,
    pub(super) temperature: &'static str,
    pub(super) stream: &'static str,
    pub(super) allocation: &'static str,
    pub(super) net_blocks: u32,
    /// Kind of static wear levelling, and its threshold in percent of the endurance, so that drives
    /// of less endurance behave alike.
    pub(super) leveling: (&'static str, u32),
}

/// What every scheme starts from.
const PLAIN: Scheme = Scheme {
    label: "",
    victim: "greedy",
    migration: "none",
    temperature: "update-count",
    stream: "host",
    allocation: "fifo",
    net_blocks: NET_BLOCKS_OTHERS,
    leveling: ("none", 10),
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
    Scheme { label: "CAT, least-erased", allocation: "least-erased", ..CAT },
    // In its Table 1 only.
    Scheme { label: "SCATA", victim: "scata", migration: "hot-cold", temperature: "last-write", ..PLAIN },
];

const CAT: Scheme =
    Scheme { label: "CAT", victim: "cat", migration: "hot-cold", temperature: "update-rate", ..PLAIN };

const FEGC: Scheme = Scheme {
    label: "FeGC",
    victim: "fegc",
    migration: "hot-cold",
    temperature: "update-rate",
    allocation: "adaptive",
    ..PLAIN
};

const CAPI_SCHEME: Scheme = Scheme {
    label: CAPI,
    victim: "capi",
    migration: "sorted",
    allocation: "least-erased",
    net_blocks: NET_BLOCKS_CAPI,
    ..PLAIN
};

/// What all get where nobody is to be at a disadvantage. Tried were all migrations, with the
/// temperatures of their authors, and both streams at three data sets; the longest lifetime counts.
const FAIR_PLAIN: Scheme =
    Scheme { migration: "sorted", allocation: "least-erased", net_blocks: NET_BLOCKS_CAPI, ..PLAIN };

/// Every policy with the migration and the stream that suit it best.
pub(super) const FAIR: &[Scheme] = &[
    // Greedy collects the same few blocks again and again if whole blocks of cold data are kept
    // apart from them.
    Scheme { label: "GA", migration: "hot-cold", temperature: "update-rate", net_blocks: 1, ..FAIR_PLAIN },
    Scheme { label: "CB", victim: "cost-benefit", stream: "own", ..FAIR_PLAIN },
    Scheme { label: "CAT", victim: "cat", ..FAIR_PLAIN },
    Scheme { label: "FeGC", victim: "fegc", ..FAIR_PLAIN },
    Scheme { label: CAPI, victim: "capi", ..FAIR_PLAIN },
];

/// Combinations that the paper does not consider: static wear levelling, which it leaves to future
/// work, and what that does for its weakest and strongest schemes.
pub(super) const BEYOND: &[Scheme] = &[
    CAPI_SCHEME,
    Scheme { label: "CAPi+, swap", leveling: ("swap", 4), ..CAPI_PLUS },
    Scheme { label: "CAPi+, dual-pool", leveling: ("dual-pool", 4), ..CAPI_PLUS },
    Scheme { label: "CAPi+, SW Leveler", leveling: ("sw-leveler", 4), ..CAPI_PLUS },
    Scheme { label: "FeGC, dual-pool", leveling: ("dual-pool", 4), ..FEGC },
    Scheme { label: "GA, swap", leveling: ("swap", 4), ..PLAIN },
];

/// CAPi with larger batches, which sort better, and FeGC's allocation, which puts cold data on worn
/// blocks where CAPi parks it on the youngest.
const CAPI_PLUS: Scheme = Scheme { net_blocks: 4, allocation: "adaptive", ..CAPI_SCHEME };
