//! Names of victim policies, placements and mapping schemes, with one table for each kind.

use strobe_ftl::BlockScheme;
use strobe_ftl::gc::{LinearScore, ScataAge};

use super::placement::{Scheme, SchemeName};

/// A named victim policy. Any other value of `drive.ftl.gc.victim` is a formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Victim {
    /// The block with the fewest valid units, among all blocks or among the `window` blocks closed first.
    Greedy {
        /// True if only the `window` blocks closed first are candidates.
        windowed: bool,
    },
    /// The block with the largest score, computed exactly.
    Score(LinearScore),
    /// SCATA, with one of two ages of invalid units.
    Scata(ScataAge),
    /// The block closed first.
    Fifo,
    /// A random block.
    Random,
    /// The block with the fewest valid units among `choices` blocks drawn at random.
    DChoices,
    /// MiDAS: a block of a placement group that exceeds its size, else a block of the last group.
    Midas,
    /// 2R-Greedy: batches from one of two regions.
    TwoRegions,
    /// 2R-FIFO: batches from a queue with second chances.
    SecondChance,
}

impl Victim {
    /// The policy called `name`.
    pub fn named(name: &str) -> Option<Self> {
        POLICIES.iter().find(|policy| policy.name == name).map(|policy| policy.victim)
    }
}

/// A victim policy, for `strobe list policies`.
#[derive(Clone, Copy, Debug)]
pub struct PolicyInfo {
    /// The policy.
    pub victim: Victim,
    /// Name used in configurations.
    pub name: &'static str,
    /// Rule of choice. Text after "max " is a formula that `drive.ftl.gc.victim` accepts.
    pub picks: &'static str,
    /// Publication.
    pub source: &'static str,
}

/// Every victim policy.
pub const POLICIES: &[PolicyInfo] = &[
    PolicyInfo {
        victim: Victim::Greedy { windowed: false },
        name: "greedy",
        picks: "min valid; ties: closed first",
        source: "GA: Wu & Zwaenepoel 1994 (eNVy)",
    },
    PolicyInfo {
        victim: Victim::Greedy { windowed: true },
        name: "windowed-greedy",
        picks: "min valid among the `window` blocks closed first",
        source: "Hu et al. 2009 (SYSTOR)",
    },
    PolicyInfo {
        victim: Victim::Score(LinearScore::CostBenefit),
        name: "cost-benefit",
        picks: "max age_last_invalid · (1−u) / (2 · u)",
        source: "CB: Kawaguchi, Nishioka & Motoda 1995",
    },
    PolicyInfo {
        victim: Victim::Score(LinearScore::Lfs),
        name: "lfs",
        picks: "max age_closed · (1−u) / (1+u)",
        source: "LFS: Rosenblum & Ousterhout 1992",
    },
    PolicyInfo {
        victim: Victim::Score(LinearScore::Cat),
        name: "cat",
        picks: "max age · (1−u) / (u · (erase_count+1))",
        source: "CAT: Chiang & Chang 1999",
    },
    PolicyInfo {
        victim: Victim::Score(LinearScore::FeGc),
        name: "fegc",
        picks: "max age_invalid_sum",
        source: "FeGC: Kwon et al. 2011",
    },
    PolicyInfo {
        victim: Victim::Score(LinearScore::CaPi),
        name: "capi",
        picks: "max age · (1−u) / (1+u)²",
        source: "CAPi: Hwang & Kwak 2016, eq. 1",
    },
    PolicyInfo {
        victim: Victim::Scata(ScataAge::OldestInvalid),
        name: "scata",
        picks: "max age_first_invalid · age_newest_valid · (1−u) / ((erase_count+1) · (1+u))",
        source: "SCATA: Lin 2011, table",
    },
    PolicyInfo {
        victim: Victim::Scata(ScataAge::NewestInvalid),
        name: "scata-newest",
        picks: "max age_last_invalid · age_newest_valid · (1−u) / ((erase_count+1) · (1+u))",
        source: "SCATA: Lin 2011, prose",
    },
    PolicyInfo {
        victim: Victim::Fifo,
        name: "fifo",
        picks: "the block closed first",
        source: "a circular log, or LRU cleaning; Menon 1995",
    },
    PolicyInfo {
        victim: Victim::Random,
        name: "random",
        picks: "any closed block",
        source: "Van Houdt 2013, d = 1",
    },
    PolicyInfo {
        victim: Victim::DChoices,
        name: "d-choices",
        picks: "min valid of `choices` blocks drawn at random",
        source: "Van Houdt 2013",
    },
    PolicyInfo {
        victim: Victim::Midas,
        name: "midas",
        picks: "the oldest of a group above its size, else best of the last group by (1−u) / u · √age_closed",
        source: "MiDAS: Oh et al. 2024",
    },
    PolicyInfo {
        victim: Victim::TwoRegions,
        name: "2r-greedy",
        picks: "min valid in the host's blocks or in those of relocation, in batches",
        source: "2R-Greedy: Kang et al. 2020",
    },
    PolicyInfo {
        victim: Victim::SecondChance,
        name: "2r-fifo",
        picks: "the next closed block with u < 0.7, in batches",
        source: "2R-FIFO: Kang et al. 2020",
    },
];

/// A placement scheme, for `strobe list placements`.
#[derive(Clone, Copy, Debug)]
pub struct PlacementInfo {
    /// The scheme.
    pub scheme: SchemeName,
    /// Name used in configurations.
    pub name: &'static str,
    /// Streams of host writes, and streams of relocated units.
    pub streams: [&'static str; 2],
    /// Publication.
    pub source: &'static str,
}

const fn placement(
    scheme: SchemeName,
    name: &'static str,
    streams: [&'static str; 2],
    source: &'static str,
) -> PlacementInfo {
    PlacementInfo { scheme, name, streams, source }
}

/// Every named placement scheme.
pub const PLACEMENTS: &[PlacementInfo] = &[
    placement(
        SchemeName::None,
        "none",
        ["one", "one of their own; the host's with gc.stream = \"host\""],
        "SepGC; NoSep with gc.stream = \"host\"",
    ),
    placement(SchemeName::SepGc, "sep-gc", ["one", "one of their own"], "SepGC"),
    placement(
        SchemeName::HotCold,
        "hot-cold",
        ["one", "hot, cold: the halves of a victim"],
        "CAT: Chiang & Chang 1999",
    ),
    placement(
        SchemeName::Sorted,
        "sorted",
        ["one", "hot, cold: all victims sorted"],
        "CAPi: Hwang & Kwak 2016",
    ),
    placement(
        SchemeName::Sepbit,
        "sepbit",
        ["by the life of the version replaced", "by age"],
        "SepBIT: Wang et al. 2022",
    ),
    placement(
        SchemeName::Uw,
        "uw",
        ["by the life of the version replaced", "one"],
        "half of SepBIT: Wang et al. 2022",
    ),
    placement(SchemeName::Gw, "gw", ["one", "by age"], "half of SepBIT: Wang et al. 2022"),
    placement(
        SchemeName::Dac,
        "dac",
        ["up one with each write", "down one with each relocation"],
        "DAC: Chiang, Lee & Chang 1999",
    ),
    placement(
        SchemeName::Fadac,
        "fadac",
        ["by writes less relocations", "the same"],
        "FADaC: Kremer & Brinkmann 2019",
    ),
    placement(
        SchemeName::Warcip,
        "warcip",
        ["clusters of rewrite intervals", "one"],
        "WARCIP: Yang, Pei & Yang 2019",
    ),
    placement(SchemeName::Sfs, "sfs", ["clusters of hotness", "the same"], "SFS: Min et al. 2012"),
    placement(
        SchemeName::Fk,
        "fk",
        ["by the time to the next write, from a trace", "the same"],
        "FK, an oracle: Wang et al. 2022",
    ),
    placement(SchemeName::Midas, "midas", ["hot, others", "the next group"], "MiDAS: Oh et al. 2024"),
    placement(SchemeName::TwoR, "2r", ["one", "one; the host fills its last block"], "2R: Kang et al. 2020"),
    placement(SchemeName::Hints, "hints", ["data, hinted metadata", "one"], ""),
    placement(
        SchemeName::Handles,
        "handles",
        ["by placement handle", "one, or by handle"],
        "FDP: NVMe TP4146",
    ),
];

impl From<&str> for Scheme {
    /// The scheme called `text`, else a formula.
    fn from(text: &str) -> Self {
        let named = PLACEMENTS.iter().find(|placement| placement.name == text);
        named.map_or_else(|| Self::Formula(text.to_owned()), |placement| Self::Name(placement.scheme))
    }
}

/// A mapping scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mapping {
    /// A page map held completely in memory.
    Page,
    /// A page map on flash, with the entries in use cached (DFTL).
    Dftl,
    /// A block-mapped scheme.
    Blocks(BlockScheme),
}

impl Mapping {
    /// The scheme called `name`.
    pub fn named(name: &str) -> Option<Self> {
        MAPPINGS.iter().find(|mapping| mapping.name == name).map(|mapping| mapping.mapping)
    }
}

/// A mapping scheme, for `strobe list mappings`.
#[derive(Clone, Copy, Debug)]
pub struct MappingInfo {
    /// The scheme.
    pub mapping: Mapping,
    /// Name used in configurations.
    pub name: &'static str,
    /// One-line summary.
    pub summary: &'static str,
}

/// Every mapping scheme.
pub const MAPPINGS: &[MappingInfo] = &[
    MappingInfo {
        mapping: Mapping::Page,
        name: "page",
        summary: "full map in RAM: any unit anywhere, 4 bytes per unit",
    },
    MappingInfo {
        mapping: Mapping::Dftl,
        name: "dftl",
        summary: "the page map on flash, entries in use cached: translation.cached_entries (Gupta et al. 2009)",
    },
    MappingInfo {
        mapping: Mapping::Blocks(BlockScheme::ReplacementBlock),
        name: BlockScheme::ReplacementBlock.name(),
        summary: "NFTL: chains of blocks with each sector at its offset, folded; needs any_page_order (Ban 1995)",
    },
    MappingInfo {
        mapping: Mapping::Blocks(BlockScheme::LogBlock),
        name: BlockScheme::LogBlock.name(),
        summary: "BAST: a log block per data block; switch, partial and full merges (Kim et al. 2002)",
    },
    MappingInfo {
        mapping: Mapping::Blocks(BlockScheme::Fast),
        name: BlockScheme::Fast.name(),
        summary: "log blocks shared by all data blocks, one for sequential writes (Lee et al. 2007)",
    },
];

pub(crate) fn block_scheme(mapping: &str) -> Option<BlockScheme> {
    match Mapping::named(mapping) {
        Some(Mapping::Blocks(scheme)) => Some(scheme),
        // `PageMap` implements both schemes. Any further kind of scheme needs a case in `Plan::build`.
        Some(Mapping::Page | Mapping::Dftl) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use strobe_ftl::gc::Formula;

    use super::*;

    #[test]
    fn each_placement_is_listed_by_the_name_of_configurations() {
        for info in PLACEMENTS {
            assert_eq!(serde_json::to_value(info.scheme).expect("a name"), info.name);
        }
        let named =
            serde_json::from_value::<SchemeName>("nonesuch".into()).expect_err("no scheme").to_string();
        assert_eq!(named.matches('`').count() / 2 - 1, PLACEMENTS.len(), "{named}");
    }

    #[test]
    fn each_formula_that_is_listed_can_be_pasted_back() {
        let formulas: Vec<&str> =
            POLICIES.iter().filter_map(|policy| policy.picks.strip_prefix("max ")).collect();
        assert_eq!(formulas.len(), 7);
        for formula in formulas {
            assert_eq!(Formula::check(formula), Ok(()), "{formula}");
        }
    }
}
