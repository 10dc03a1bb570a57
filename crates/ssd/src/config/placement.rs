//! The `[drive.ftl.placement]` table: which data shares blocks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_ftl::gc::FormulaError;
use strobe_ftl::{Fk, FormulaPlacement, Isolation, Placement, PlacementKind, Temperature};
use strobe_types::defaults;

/// Data placement scheme.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SchemeName {
    /// Host writes share blocks. Relocated data has separate blocks (SepGC), or shares the host's with
    /// drive.ftl.gc.stream = "host" (NoSep).
    #[default]
    None,
    /// Relocated units at least as hot as the mean of their victim use one stream, and the colder ones
    /// another (CAT, FeGC).
    HotCold,
    /// Sorts the units of all victims of a collection. The coldest units, in whole blocks, use a separate
    /// stream, and the others the stream of relocated data (CAPi).
    Sorted,
    /// Separates host writes by the lifespan of the version that they replace, and relocated units by age
    /// (SepBIT).
    Sepbit,
    /// Host writes share blocks, and relocated data has separate ones (SepGC). Equals none with
    /// drive.ftl.gc.stream = "own".
    SepGc,
    /// SepBIT's separation of host writes; all relocated data shares blocks (UW).
    Uw,
    /// SepBIT's separation of relocated data; host writes share blocks (GW).
    Gw,
    /// A unit moves up one stream with each host write, and down one with each relocation (DAC).
    Dac,
    /// Streams by the order of magnitude of a unit's host writes minus its relocations (FADaC).
    Fadac,
    /// Clusters host writes by rewrite interval (WARCIP).
    Warcip,
    /// Clusters units by hotness; the cluster centres come from the hotness of blocks (SFS).
    Sfs,
    /// Separates units by the time to their next write or trim, known in advance only from a trace (FK, an
    /// oracle).
    Fk,
    /// Hot host writes have separate blocks. All other units enter a chain of groups and advance by one group
    /// with each relocation. Number and sizes of the groups follow the update intervals of a sample (MiDAS).
    Midas,
    /// Relocated data has separate blocks. The host continues in the block that a collection leaves partly
    /// filled (2R).
    #[serde(rename = "2r")]
    TwoR,
    /// Writes hinted as file-system metadata use a separate stream.
    Hints,
    /// Each placement handle that the host names is a stream with separate reclaim units (FDP).
    Handles,
}

/// A placement scheme: a name, or a formula whose value is the stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Scheme {
    /// One of the named schemes.
    Name(SchemeName),
    /// A formula over [`UNIT_VARIABLES`](strobe_ftl::UNIT_VARIABLES).
    Formula(String),
}

impl From<SchemeName> for Scheme {
    fn from(name: SchemeName) -> Self {
        Self::Name(name)
    }
}

impl PartialEq<SchemeName> for Scheme {
    fn eq(&self, name: &SchemeName) -> bool {
        self.name() == Some(*name)
    }
}

impl JsonSchema for Scheme {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Scheme".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string" })
    }
}

impl Scheme {
    /// Name of the scheme; `None` if it is a formula.
    pub fn name(&self) -> Option<SchemeName> {
        match self {
            Self::Name(name) => Some(*name),
            Self::Formula(_) => None,
        }
    }

    /// The formula; `None` if the scheme has a name.
    pub fn formula(&self) -> Option<&str> {
        match self {
            Self::Name(_) => None,
            Self::Formula(text) => Some(text),
        }
    }

    /// True if the scheme is a formula that uses the variable `name`.
    pub fn uses(&self, name: &str) -> bool {
        self.formula().is_some_and(|text| FormulaPlacement::uses(text, name))
    }
}

defaults! {
    /// Data placement: which data shares blocks.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct PlacementTable {
        /// Scheme: none, sep-gc, hot-cold, sorted, sepbit, uw, gw, dac, fadac, warcip, sfs, fk, midas, 2r,
        /// hints or handles, or a formula. The value of a formula such as "min(writes / 4, 2) + 3 * is_copy"
        /// is the stream; see `strobe list placements`. Needs mapping = "page" or "dftl"; 2r also needs
        /// drive.ftl.gc.mode = "stop-the-world". The scheme none keeps relocated data apart (SepGC); with
        /// drive.ftl.gc.stream = "host" it does not (NoSep). Default none.
        pub scheme: Scheme = Scheme::Name(SchemeName::None);
        /// Number of streams of sepbit, gw, dac, fadac, warcip, sfs, fk and midas, for host writes and
        /// relocated data together. For a formula, the maximum number. Default 6.
        #[schemars(range(min = 3, max = 16))]
        pub streams: u8 = 6;
        /// Number of placement handles, for handles and for a formula that uses the variable handle. Default
        /// 2.
        #[schemars(range(min = 1, max = 64))]
        pub handles: u8 = 2;
        /// Isolation of relocated data under handles: initial (all handles share blocks) or persistent
        /// (separate blocks per handle). Default initial.
        #[schemars(extend("x-needs" = {"scheme": ["handles"]}))]
        pub isolation: Isolation = Isolation::Initial;
        /// Size of a reclaim unit under handles: blocks on each plane of its reclaim group. Default 1.
        #[schemars(range(min = 1, max = 65_536))]
        #[schemars(extend("x-needs" = {"scheme": ["handles"]}))]
        pub unit_blocks: u32 = 1;
        /// Reclaim groups under handles; their number must divide the dies of the drive. Each handle fills a
        /// reclaim unit in each group, and relocated data stays in its group. A host names handle h of group
        /// g as g * handles + h. Default 1.
        #[schemars(range(min = 1, max = 16))]
        #[schemars(extend("x-needs" = {"scheme": ["handles"]}))]
        pub groups: u8 = 1;
        /// Measure of temperature for hot-cold and sorted: update-count, update-rate or last-write. Default
        /// update-count.
        #[schemars(extend("x-needs" = {"scheme": ["hot-cold", "sorted"]}))]
        pub temperature: Temperature = Temperature::UpdateCount;
    }
}

impl PlacementTable {
    /// Placement of a map with this table.
    ///
    /// The table is flat, so a sweep can change the scheme alone. Several names select one kind of placement
    /// with different streams.
    pub(crate) fn kind(&self) -> PlacementKind {
        match &self.scheme {
            Scheme::Name(name) => self.named(*name),
            Scheme::Formula(text) => {
                // An invalid formula is rejected before a drive is built, so the fallback is never used.
                let layout = FormulaPlacement::layout(text, self.streams, self.handles);
                layout.map_or(PlacementKind::Single, PlacementKind::Own)
            }
        }
    }

    /// Host memory in bytes of a placement outside the map: a formula, or fk without its known write times.
    pub(crate) fn own_bytes(&self, logical_units: u32) -> u64 {
        match &self.scheme {
            Scheme::Formula(text) => FormulaPlacement::bytes(text, logical_units),
            Scheme::Name(SchemeName::Fk) => Fk::BYTES_PER_UNIT * u64::from(logical_units),
            Scheme::Name(_) => 0,
        }
    }

    /// The formula placement of a map with `logical_units`; `None` if the scheme has a name.
    pub(crate) fn by_formula(&self, logical_units: u32) -> Result<Option<Box<dyn Placement>>, FormulaError> {
        let Some(text) = self.scheme.formula() else { return Ok(None) };
        let placement = FormulaPlacement::new(text, self.streams, self.handles, logical_units)?;
        Ok(Some(Box::new(placement)))
    }

    fn named(&self, name: SchemeName) -> PlacementKind {
        let streams = self.streams;
        match name {
            SchemeName::None | SchemeName::SepGc => PlacementKind::Single,
            SchemeName::HotCold => PlacementKind::HotCold,
            SchemeName::Sorted => PlacementKind::Sorted,
            SchemeName::Sepbit => PlacementKind::SepBit { streams },
            SchemeName::Uw => PlacementKind::SepBit { streams: 3 },
            SchemeName::Gw => PlacementKind::SepBitCopies { streams },
            SchemeName::Dac => PlacementKind::Dac { streams },
            SchemeName::Fadac => PlacementKind::Fadac { streams },
            SchemeName::Warcip => PlacementKind::Warcip { streams },
            SchemeName::Sfs => PlacementKind::Sfs { streams },
            SchemeName::Fk => PlacementKind::Own(Fk::layout(streams)),
            SchemeName::Midas => PlacementKind::Midas { streams },
            SchemeName::TwoR => PlacementKind::TwoR,
            SchemeName::Hints => PlacementKind::Hints,
            SchemeName::Handles => PlacementKind::Handles {
                count: self.handles,
                isolation: self.isolation,
                unit_blocks: self.unit_blocks,
                groups: self.groups,
            },
        }
    }
}
