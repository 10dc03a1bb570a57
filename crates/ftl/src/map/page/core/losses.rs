//! Unreadable units: marked in their copies, or the end of the drive's life.

use strobe_nand::{Nand, Unit};
use strobe_types::{Lpn, Ppa};

use crate::FtlError;
use crate::gc::VictimPolicy;
use crate::map::page::core::Core;

impl<N: Nand, V: VictimPolicy> Core<N, V> {
    #[inline(always)]
    pub(crate) fn pass_losses_on(
        &mut self,
        units: &[Unit<N::Payload>],
        sources: impl Iterator<Item = Ppa>,
    ) -> Result<(), FtlError> {
        // The copies of lost units are marked as lost before their program.
        if self.nand.has_losses() {
            return self.mark_lost(units, sources);
        }
        Ok(())
    }

    #[cold]
    fn mark_lost(
        &mut self,
        units: &[Unit<N::Payload>],
        sources: impl Iterator<Item = Ppa>,
    ) -> Result<(), FtlError> {
        let is_lost = |&(_, ppa): &(Lpn, Ppa)| self.nand.is_lost(ppa);
        let lost: Vec<(Lpn, Ppa)> = units.iter().map(|unit| unit.lpn).zip(sources).filter(is_lost).collect();
        let is_table = |lpn| self.store.paged().is_some_and(|translation| translation.is_translation(lpn));
        if let Some(&(_, ppa)) = lost.iter().find(|&&(lpn, _)| is_table(lpn)) {
            return Err(self.lose_map(ppa));
        }
        self.nand.mark_next(lost.into_iter().map(|(lpn, _)| lpn));
        Ok(())
    }

    #[cold]
    pub(crate) fn lose_map(&mut self, ppa: Ppa) -> FtlError {
        let page = self.nand.geometry().page_of(ppa);
        self.end_of_life.insert(FtlError::MapUnreadable { page }).clone()
    }

    #[inline(always)]
    pub(crate) fn refuse_without_map(&self) -> Result<(), FtlError> {
        match &self.end_of_life {
            Some(error @ FtlError::MapUnreadable { .. }) => Err(error.clone()),
            _ => Ok(()),
        }
    }
}
