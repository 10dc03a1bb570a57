//! The `[drive.ftl.placement]` table: which data shares blocks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_ftl::{Isolation, PlacementKind, Temperature};
use strobe_types::defaults;

/// Data placement scheme.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SchemeName {
    /// Host writes share blocks, and relocated data does (drive.ftl.gc.stream).
    #[default]
    None,
    /// Relocated units at least as hot as the mean of their victim go to one stream, the others to another (CAT, FeGC).
    HotCold,
    /// The units of all victims of a collection are sorted; whole blocks of the coldest go to a stream of their own, the
    /// rest to that of relocated data (CAPi).
    Sorted,
    /// Host writes are separated by the lifespan of the version that they replace, relocated units by age (SepBIT).
    Sepbit,
    /// Writes hinted as file-system metadata go to a stream of their own.
    Hints,
    /// Each placement handle that the host names is a stream (FDP).
    Handles,
}

/// Isolation of placement handles when data is relocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IsolationName {
    /// Relocated data of all handles shares blocks.
    #[default]
    Initial,
    /// Relocated data keeps to blocks of its handle.
    Persistent,
}

defaults! {
    /// Data placement: which data shares blocks.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct PlacementTable {
        /// Scheme: none, hot-cold, sorted, sepbit, hints or handles; the page map and dftl have it. Default none.
        pub scheme: SchemeName = SchemeName::None;
        /// Streams of sepbit: two of the host, one of what short-lived blocks leave behind, the others by age. Default 6.
        #[schemars(range(min = 4, max = 16))]
        pub streams: u8 = 6;
        /// Placement handles of handles. Default 2.
        #[schemars(range(min = 1, max = 64))]
        pub handles: u8 = 2;
        /// Blocks of relocated data under handles: initial (shared by all) or persistent (of each handle). Default initial.
        pub isolation: IsolationName = IsolationName::Initial;
        /// Temperature that hot-cold and sorted go by: update-count, update-rate or last-write. Default update-count.
        pub temperature: Temperature = Temperature::UpdateCount;
    }
}

impl PlacementTable {
    /// The scheme for a map.
    pub(crate) fn kind(&self) -> PlacementKind {
        match self.scheme {
            SchemeName::None => PlacementKind::Single,
            SchemeName::HotCold => PlacementKind::HotCold,
            SchemeName::Sorted => PlacementKind::Sorted,
            SchemeName::Sepbit => PlacementKind::SepBit { streams: self.streams },
            SchemeName::Hints => PlacementKind::Hints,
            SchemeName::Handles => {
                let isolation = match self.isolation {
                    IsolationName::Initial => Isolation::Initial,
                    IsolationName::Persistent => Isolation::Persistent,
                };
                PlacementKind::Handles { count: self.handles, isolation }
            }
        }
    }
}
