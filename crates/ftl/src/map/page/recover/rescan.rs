//! Recovery of a demand-paged map after a power cut.
//!
//! 1. Every out-of-band area is read. The current version of a logical unit, or of a translation page, is in
//!    the newest page that names it.
//! 2. The log of trims hides newest pages whose units were trimmed. A trim missing from the log is undone: no
//!    data that it invalidated has been erased.
//! 3. The map in memory is now correct. Translation pages older than the units they map are programmed again.
//!
//! With logical copy, the log also holds the virtual map and the addresses of foreign units, as of its last
//! epoch. A logical unit in the log is at that address unless a page that names it is newer than the epoch.
//! The newer page may be a copy of the shared unit, which names its first owner. Recovery then separates the
//! two owners: the other one stays at the old address.

use strobe_nand::Nand;
use strobe_types::SimTime;

use crate::gc::VictimPolicy;
use crate::journal::Trims;
use crate::map::page::PageMap;
use crate::map::page::core::Core;
use crate::map::page::core::config::PageMapConfig;
use crate::map::page::core::restore::Restorer;
use crate::map::page::map::store::MapStore;
use crate::map::page::map::translation::{Translation, TranslationConfig};
use crate::place::Placement;
use crate::{Recovery, RecoveryError};

impl<N: Nand, V: VictimPolicy> PageMap<N, V> {
    /// [`PageMap::restart`] of a demand-paged drive.
    #[cold]
    pub(crate) fn restart_paged(
        mut nand: N,
        policy: V,
        placement: Option<Box<dyn Placement>>,
        config: PageMapConfig,
        translation: &TranslationConfig,
        now: SimTime,
        tick: u64,
    ) -> Result<(Self, Recovery), RecoveryError> {
        let mut report = Recovery::new(now);
        let geometry = nand.geometry().clone();
        let found = Trims::find(&mut nand, config.trims_demand(), &mut report)?;
        let clock = found.clock;
        let shares = config.virtual_map_entries > 0;
        let translation =
            Translation::new(config.logical_units, translation, &geometry, shares, Some(found.trims));
        let mut core = Core::new(nand, policy, placement, config, MapStore::Paged(Box::new(translation)));
        core.tick = tick;
        Restorer(&mut core).adopt_paged(clock, &found.shared, &found.foreign, &mut report)?;
        let mut ftl = Self::of(core);
        ftl.finish(&mut report);
        ftl.refresh(&mut report);
        Ok((ftl, report))
    }

    fn refresh(&mut self, report: &mut Recovery) {
        if self.core.end_of_life.is_none()
            && let Err(error) = self.pager().write_back_entries(report.now(), true)
        {
            self.core.end_of_life = Some(error);
        }
        self.core.wait(report);
    }
}
