//! The `[drive]` table: every key of the drive, with unit, range and default.
//!
//! `strobe schema drive` prints the doc comments of these modules, and error messages quote them. Ranges in
//! schema attributes are checked before a drive is built.

mod controller;
mod durable;
mod faults;
mod ftl;
mod gc;
mod names;
mod nand;
mod nvram;
mod placement;

pub use controller::{ControllerConfig, ScheduleTable, TrimConfig};
pub use durable::DurableMap;
pub use faults::{FaultAt, FaultsTable};
pub use ftl::{CopyMode, FtlConfig, RefreshTable, TranslationTable, WearLevelingConfig, WearLevelingName};
pub use gc::{GcConfig, GcMode};
pub(crate) use names::block_scheme;
pub use names::{MAPPINGS, Mapping, MappingInfo, PLACEMENTS, POLICIES, PlacementInfo, PolicyInfo, Victim};
pub use nand::{DataMode, NandConfig};
pub use nvram::{NVRAM_RANGES_MAX, NvramConfig, NvramError, NvramPolicyName, SectorRange};
pub use placement::{PlacementTable, Scheme, SchemeName};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use strobe_ftl::FormulaPlacement;
use strobe_ftl::gc::{Formula, FormulaError};
use toml::Table;

use crate::schema::{self, KeyError, nearest};

/// A drive. Start from a preset and override the keys that differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DriveConfig {
    /// Name of the preset that fills all keys not given here; see `strobe list presets`. Default: generic-8g.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preset: Option<String>,
    /// The flash chips.
    pub nand: NandConfig,
    /// The flash translation layer.
    pub ftl: FtlConfig,
    /// Firmware, link and write buffer.
    pub controller: ControllerConfig,
}

/// Path of the `[drive]` table in an experiment, for messages.
const PATH: &str = "drive";

impl DriveConfig {
    /// True if write hints have an effect, on the non-volatile cache or on the placement.
    pub fn takes_hints(&self) -> bool {
        let scheme = &self.ftl.placement.scheme;
        self.controller.nvram.takes_hints() || *scheme == SchemeName::Hints || scheme.uses("is_metadata")
    }

    /// The drive of the preset called `name`, one of [`presets::PRESETS`](crate::presets::PRESETS).
    pub fn preset(name: &str) -> Result<Self, KeyError> {
        Self::over_preset(Table::from_iter([("preset".to_owned(), name.into())]))
    }

    /// The drive of the `[drive]` table `given`, whose keys override the preset that it names. A drive of
    /// another flash size keeps the over-provisioning of the preset, unless `given` sets the capacity.
    pub fn over_preset(given: Table) -> Result<Self, KeyError> {
        Self::from_table(crate::presets::complete(given)?)
    }

    /// The drive of the complete `[drive]` table `table`. Its `preset` key has no effect here.
    pub fn from_table(table: Table) -> Result<Self, KeyError> {
        let config: Self = schema::read(table, Self::schema(), PATH)?;
        // The schema allows any text for these keys, so names and formulas are checked here.
        VICTIM.check(&config.ftl.gc.victim)?;
        if let Some(scheme) = config.ftl.placement.scheme.formula() {
            PLACEMENT.check(scheme)?;
        }
        config.mapping()?;
        Ok(config)
    }

    /// Rejects keys and values of a complete `[drive]` table that its schema does not allow.
    pub fn check_table(table: &mut Table) -> Result<(), KeyError> {
        schema::check(table, Self::schema(), PATH)
    }

    /// Rejects values outside their documented ranges. Building a drive includes this check.
    pub fn check(&self) -> Result<(), KeyError> {
        let refused =
            |error: toml::ser::Error| KeyError::Table { path: PATH.into(), reason: error.to_string() };
        Self::check_table(&mut Table::try_from(self).map_err(refused)?)
    }

    /// The configured mapping scheme.
    pub fn mapping(&self) -> Result<Mapping, KeyError> {
        let names: Vec<&str> = MAPPINGS.iter().map(|mapping| mapping.name).collect();
        let at = schema::check_name("drive.ftl.mapping", &self.ftl.mapping, &names)?;
        Ok(MAPPINGS[at].mapping)
    }

    fn schema() -> &'static Json {
        schema::of::<Self>()
    }

    /// Mapping units offered to the host, from logical_pages if given, else from over_provisioning.
    pub fn logical_units(&self) -> u64 {
        if let Some(pages) = self.ftl.logical_pages {
            return u64::from(pages);
        }
        let nand = &self.nand;
        let pages = [
            nand.channels,
            nand.dies_per_channel,
            nand.planes_per_die,
            nand.blocks_per_plane,
            nand.pages_per_block,
        ]
        .iter()
        .fold(1.0, |product, &factor| product * f64::from(factor));
        let units = pages * f64::from(nand.page_bytes / self.ftl.mapping_unit_bytes.max(1));
        (units / (1.0 + self.ftl.over_provisioning.unwrap_or(0.07))).floor() as u64
    }

    /// Bytes offered to the host.
    pub fn logical_bytes(&self) -> u64 {
        self.logical_units() * u64::from(self.ftl.mapping_unit_bytes)
    }
}

struct NameOrFormula {
    key: &'static str,
    /// Plural noun for the named values.
    kind: &'static str,
    names: fn() -> Vec<&'static str>,
    check: fn(&str) -> Result<(), FormulaError>,
    example: &'static str,
    /// Argument of `strobe list` that explains names and formulas.
    list: &'static str,
}

const VICTIM: NameOrFormula = NameOrFormula {
    key: "drive.ftl.gc.victim",
    kind: "policies",
    names: || POLICIES.iter().map(|policy| policy.name).collect(),
    check: Formula::check,
    example: "age * (1-u) / (1+u)^2",
    list: "policies",
};

const PLACEMENT: NameOrFormula = NameOrFormula {
    key: "drive.ftl.placement.scheme",
    kind: "schemes",
    names: || PLACEMENTS.iter().map(|placement| placement.name).collect(),
    check: FormulaPlacement::check,
    example: "min(writes / 4, 2) + 3 * is_copy",
    list: "placements",
};

impl NameOrFormula {
    fn check(&self, given: &str) -> Result<(), KeyError> {
        let names = (self.names)();
        if names.contains(&given) {
            return Ok(());
        }
        let Err(error) = (self.check)(given) else { return Ok(()) };
        let formula =
            |reason: String| Err(KeyError::Formula { key: self.key.to_owned(), reason, list: self.list });
        if given.trim().is_empty() {
            let (kind, example) = (self.kind, self.example);
            return formula(format!(
                "it is empty; it must be one of the {kind} {}, or a formula such as \"{example}\"",
                names.join(", ")
            ));
        }
        // A single word is treated as a misspelt name, unless a formula variable is nearer than any name.
        let variables = error.known_names();
        let is_word = given.starts_with(|c: char| c.is_ascii_alphabetic())
            && given.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
            && !given.split('-').any(|part| variables.contains(&part));
        let meant = nearest(given, names.iter().chain(&variables).copied());
        if is_word && meant.is_none_or(|name| names.contains(&name)) {
            return schema::check_name(self.key, given, &names).map(drop);
        }
        let meant = error.unknown_name().and_then(|name| nearest(name, variables.iter().copied()));
        formula(meant.map_or_else(|| error.to_string(), |name| error.with_nearest(name)))
    }
}
