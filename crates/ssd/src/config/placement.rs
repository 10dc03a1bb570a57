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
    /// Host writes share blocks. Relocated data shares blocks of its own (SepGC), or those of the host with
    /// drive.ftl.gc.stream = "host" (NoSep).
    #[default]
    None,
    /// Relocated units at least as hot as the mean of their victim go to one stream, the others to another (CAT, FeGC).
    HotCold,
    /// The units of all victims of a collection are sorted; whole blocks of the coldest go to a stream of their own, the
    /// rest to that of relocated data (CAPi).
    Sorted,
    /// Host writes are separated by the lifespan of the version that they replace, relocated units by age (SepBIT).
    Sepbit,
    /// Host writes share blocks, and relocated data has blocks of its own (SepGC): none with drive.ftl.gc.stream = "own".
    SepGc,
    /// SepBIT's separation of host writes; all relocated data shares blocks (UW).
    Uw,
    /// SepBIT's separation of relocated data; host writes share blocks (GW).
    Gw,
    /// A unit goes up a stream with each host write, and down with each relocation (DAC).
    Dac,
    /// Streams by the order of magnitude of a unit's host writes less its relocations (FADaC).
    Fadac,
    /// Host writes are clustered by rewrite interval (WARCIP).
    Warcip,
    /// Units are clustered by hotness, with the hotness of blocks as centres (SFS).
    Sfs,
    /// Units are separated by the time to their next write or trim, which only a trace tells beforehand (FK, an oracle).
    Fk,
    /// Hot host writes have blocks of their own, all others enter a chain of groups, and go on by one with each relocation.
    /// Number and sizes of groups follow the update intervals of a sample (MiDAS).
    Midas,
    /// Relocated data has blocks of its own, and the host goes on in the one that a collection leaves partly filled (2R).
    #[serde(rename = "2r")]
    TwoR,
    /// Writes hinted as file-system metadata go to a stream of their own.
    Hints,
    /// Each placement handle that the host names is a stream, with reclaim units of its own (FDP).
    Handles,
}

/// A placement scheme: one with a name, or a formula whose value is the stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Scheme {
    /// One of the schemes with a name.
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
    /// Its name; `None` if it is a formula.
    pub fn name(&self) -> Option<SchemeName> {
        match self {
            Self::Name(name) => Some(*name),
            Self::Formula(_) => None,
        }
    }

    /// The formula, if it is one.
    pub fn formula(&self) -> Option<&str> {
        match self {
            Self::Name(_) => None,
            Self::Formula(text) => Some(text),
        }
    }

    /// True if it is a formula that uses the variable `name`.
    pub fn uses(&self, name: &str) -> bool {
        self.formula().is_some_and(|text| FormulaPlacement::uses(text, name))
    }
}

defaults! {
    /// Data placement: which data shares blocks.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct PlacementTable {
        /// Scheme: none, sep-gc, hot-cold, sorted, sepbit, uw, gw, dac, fadac, warcip, sfs, fk, midas, 2r, hints or handles, or a formula
        /// such as "min(writes / 4, 2) + 3 * is_copy", whose value is the stream; see `strobe list placements` for both. The page
        /// map and dftl have it; 2r needs drive.ftl.gc.mode = "stop-the-world". NoSep of the literature is none with
        /// drive.ftl.gc.stream = "host"; none alone keeps relocated data apart (SepGC). Default none.
        pub scheme: Scheme = Scheme::Name(SchemeName::None);
        /// Streams of sepbit, gw, dac, fadac, warcip, sfs, fk and midas, those of the host and of relocated data together; the most of a
        /// formula. Default 6.
        #[schemars(range(min = 3, max = 16))]
        pub streams: u8 = 6;
        /// Placement handles of handles, and of a formula that uses handle. Default 2.
        #[schemars(range(min = 1, max = 64))]
        pub handles: u8 = 2;
        /// Blocks of relocated data under handles: initial (shared by all) or persistent (of each handle). Default initial.
        pub isolation: Isolation = Isolation::Initial;
        /// Size of the reclaim unit that each handle fills: blocks on each plane of its reclaim group. Default 1.
        #[schemars(range(min = 1, max = 65_536))]
        pub unit_blocks: u32 = 1;
        /// Reclaim groups of handles, which divide the dies of the drive. Each handle fills a reclaim unit in each group, and
        /// data stays in its group when it is relocated. A host names handle h of group g as g * handles + h. More than one
        /// needs drive.ftl.gc.mode = "stop-the-world". Default 1.
        #[schemars(range(min = 1, max = 16))]
        pub groups: u8 = 1;
        /// Temperature that hot-cold and sorted go by: update-count, update-rate or last-write. Default update-count.
        pub temperature: Temperature = Temperature::UpdateCount;
    }
}

impl PlacementTable {
    /// The scheme for a map.
    ///
    /// The table is flat, so that a sweep changes the scheme alone; several names are one scheme with fixed streams.
    pub(crate) fn kind(&self) -> PlacementKind {
        match &self.scheme {
            Scheme::Name(name) => self.named(*name),
            Scheme::Formula(text) => {
                // What is no formula is refused before a drive is built.
                let layout = FormulaPlacement::layout(text, self.streams, self.handles);
                layout.map_or(PlacementKind::Single, PlacementKind::Own)
            }
        }
    }

    /// Bytes of host memory of a placement that is no part of the map: a formula, or fk without its future.
    pub(crate) fn own_bytes(&self, logical_units: u32) -> u64 {
        match &self.scheme {
            Scheme::Formula(text) => FormulaPlacement::bytes(text, logical_units),
            Scheme::Name(SchemeName::Fk) => Fk::BYTES_PER_UNIT * u64::from(logical_units),
            Scheme::Name(_) => 0,
        }
    }

    /// The placement by a formula of a map with `logical_units`, if the scheme is one.
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
