//! Temperatures of logical units, for placements that separate hot from cold.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strobe_types::{Lpn, State};

/// Measure of a logical unit's temperature. Only the history that it needs is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Temperature {
    /// Number of writes (CAPi's update frequency table).
    #[default]
    UpdateCount,
    /// Writes divided by the ticks since the last one (CAT's hot degree).
    UpdateRate,
    /// Tick of the last write (age sort: Rosenblum & Ousterhout 1992).
    LastWrite,
}

/// Write history per logical unit: 4, 12 or 8 bytes by measure.
#[derive(Clone, Debug, State)]
pub(crate) struct HeatTable {
    #[state(skip)]
    measure: Temperature,
    #[state(table)]
    updates: Vec<u32>,
    #[state(table)]
    last_write: Vec<u64>,
}

impl HeatTable {
    pub(crate) fn new(measure: Temperature, logical_units: u32) -> Self {
        let units = logical_units as usize;
        let (updates, last_write) = match measure {
            Temperature::UpdateCount => (units, 0),
            Temperature::UpdateRate => (units, units),
            Temperature::LastWrite => (0, units),
        };
        Self { measure, updates: vec![0; updates], last_write: vec![0; last_write] }
    }

    pub(crate) fn bytes_per_unit(measure: Temperature) -> u64 {
        match measure {
            Temperature::UpdateCount => 4,
            Temperature::UpdateRate => 12,
            Temperature::LastWrite => 8,
        }
    }

    #[inline]
    pub(crate) fn written(&mut self, lpn: Lpn, tick: u64) {
        if let Some(updates) = self.updates.get_mut(lpn.index()) {
            *updates = updates.saturating_add(1);
        }
        if let Some(last) = self.last_write.get_mut(lpn.index()) {
            *last = tick;
        }
    }

    /// Temperature of `lpn`, never negative; larger is hotter.
    #[inline]
    pub(crate) fn of(&self, lpn: Lpn, tick: u64) -> f64 {
        let at = lpn.index();
        match self.measure {
            Temperature::UpdateCount => f64::from(self.updates[at]),
            Temperature::UpdateRate => f64::from(self.updates[at]) / (tick + 1 - self.last_write[at]) as f64,
            Temperature::LastWrite => self.last_write[at] as f64,
        }
    }
}
