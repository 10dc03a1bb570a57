use strobe_nand::{Nand, When};
use strobe_types::{Lpn, Stored};

use super::config::BlockScheme;
use super::fast::Fast;
use super::found::Found;
use super::log_block::LogBlock;
use super::replacement::ReplacementBlock;
use super::scheme::Scheme;
use super::sectors::{New, Sectors};
use crate::{CheckError, Done, Recovery, RecoveryError};

#[derive(Clone, Debug, Stored)]
pub(super) enum AnyScheme {
    ReplacementBlock(ReplacementBlock),
    LogBlock(LogBlock),
    Fast(Fast),
}

macro_rules! each {
    ($any:expr, $scheme:ident => $what:expr) => {
        match $any {
            AnyScheme::ReplacementBlock($scheme) => $what,
            AnyScheme::LogBlock($scheme) => $what,
            AnyScheme::Fast($scheme) => $what,
        }
    };
}

impl<N: Nand> Scheme<N> for AnyScheme {
    fn new(sectors: &Sectors<N>) -> Self {
        match sectors.config.scheme {
            BlockScheme::ReplacementBlock => Self::ReplacementBlock(Scheme::new(sectors)),
            BlockScheme::LogBlock => Self::LogBlock(Scheme::new(sectors)),
            BlockScheme::Fast => Self::Fast(Scheme::new(sectors)),
        }
    }

    #[inline]
    fn write(&mut self, sectors: &mut Sectors<N>, now: When, new: New<'_, N>) -> Done {
        each!(self, scheme => scheme.write(sectors, now, new))
    }

    fn look_up(&self, sectors: &mut Sectors<N>, now: When, lpn: Lpn) -> When {
        each!(self, scheme => scheme.look_up(sectors, now, lpn))
    }

    fn restore(sectors: &mut Sectors<N>, found: Found, report: &mut Recovery) -> Result<Self, RecoveryError> {
        Ok(match sectors.config.scheme {
            BlockScheme::ReplacementBlock => Self::ReplacementBlock(Scheme::restore(sectors, found, report)?),
            BlockScheme::LogBlock => Self::LogBlock(Scheme::restore(sectors, found, report)?),
            BlockScheme::Fast => Self::Fast(Scheme::restore(sectors, found, report)?),
        })
    }

    fn check(&self, sectors: &Sectors<N>) -> Result<u32, CheckError> {
        each!(self, scheme => scheme.check(sectors))
    }
}
