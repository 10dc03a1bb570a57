use strobe_ftl::TranslationConfig;

use super::BuildError;
use crate::config::{DriveConfig, DurableMap, Mapping, TranslationTable};

pub(super) fn check(config: &DriveConfig, mapping: Mapping) -> Result<(), BuildError> {
    if config.ftl.durable_map == DurableMap::Pages && mapping != Mapping::Page {
        return Err(BuildError::MapPages(config.ftl.mapping.clone()));
    }
    Ok(())
}

/// Settings of map pages, if any. Entry size and protected segment are not configurable: only tests of the
/// engine vary them.
pub(super) fn translation(config: &DriveConfig) -> Option<TranslationConfig> {
    if config.ftl.durable_map == DurableMap::Pages {
        return Some(TranslationConfig::loaded());
    }
    let &TranslationTable { cached_entries, batched_eviction } = &config.ftl.translation;
    (Mapping::named(&config.ftl.mapping) == Some(Mapping::Dftl))
        .then(|| TranslationConfig { batched_eviction, ..TranslationConfig::new(cached_entries) })
}
