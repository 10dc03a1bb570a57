//! Saving and loading of a generator's progress.

use strobe_types::{State, StateError, StateReader, StateWriter};

use super::generator::{Distribution, Mix};

impl State for Distribution {
    fn save_state(&self, out: &mut StateWriter<'_>) {
        match self {
            Distribution::Sequential(sequential) => sequential.save_state(out),
            Distribution::Mapped(map) => map.save_state(out),
            Distribution::Gaussian(gaussian) => gaussian.save_state(out),
            Distribution::Uniform(_) | Distribution::Zipf(_) | Distribution::ScatteredZipf(_) => {}
            Distribution::HotCold(_) | Distribution::ScatteredHotCold(_) => {}
        }
    }

    fn load_state(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        match self {
            Distribution::Sequential(sequential) => sequential.load_state(from),
            Distribution::Mapped(map) => map.load_state(from),
            Distribution::Gaussian(gaussian) => gaussian.load_state(from),
            Distribution::Uniform(_) | Distribution::Zipf(_) | Distribution::ScatteredZipf(_) => Ok(()),
            Distribution::HotCold(_) | Distribution::ScatteredHotCold(_) => Ok(()),
        }
    }
}

impl State for Mix {
    fn save_state(&self, out: &mut StateWriter<'_>) {
        match self {
            Mix::Only(_) | Mix::Write(_) => {}
            Mix::Trim { trim: _, ranges: _, write: _, in_use } => in_use.save_state(out),
        }
    }

    fn load_state(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        match self {
            Mix::Only(_) | Mix::Write(_) => Ok(()),
            Mix::Trim { trim: _, ranges: _, write: _, in_use } => in_use.load_state(from),
        }
    }
}
