//! Map pages of a configuration.

use strobe_ftl::TranslationConfig;

use super::BuildError;
use crate::config::{DriveConfig, DurableMap, Mapping, TranslationTable};

/// Refuses map pages beside a scheme that has none, or that has its own.
pub(super) fn check(config: &DriveConfig, mapping: Mapping) -> Result<(), BuildError> {
    if config.ftl.durable_map == DurableMap::Pages && mapping != Mapping::Page {
        return Err(BuildError::MapPages(config.ftl.mapping.clone()));
    }
    Ok(())
}

/// Map pages, if the map is kept in any. Their entry size and protected segment, which tests of the engine vary, are no
/// keys.
pub(super) fn translation(config: &DriveConfig) -> Option<TranslationConfig> {
    if config.ftl.durable_map == DurableMap::Pages {
        return Some(TranslationConfig::new(u32::MAX));
    }
    let &TranslationTable { cached_entries, batched_eviction } = &config.ftl.translation;
    (Mapping::named(&config.ftl.mapping) == Some(Mapping::Dftl))
        .then(|| TranslationConfig { batched_eviction, ..TranslationConfig::new(cached_entries) })
}
