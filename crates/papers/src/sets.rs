//! User settings for the drives of a paper.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use strobe_lab::{ConfigError, Experiment};
use strobe_ssd::DriveConfig;
use toml::{Table, Value};

use super::{Options, PaperError};

/// Settings accepted by some drive of the paper, and errors for the others: a key may apply to only one of
/// the paper's mapping schemes. Filled by a run.
#[derive(Clone, Debug, Default)]
pub struct Taken(Arc<Mutex<BTreeMap<String, Option<Arc<ConfigError>>>>>);

impl Taken {
    fn note(&self, set: &str, refused: Option<ConfigError>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match refused {
            None => drop(known.insert(set.to_owned(), None)),
            Some(error) => drop(known.entry(set.to_owned()).or_insert_with(|| Some(Arc::new(error)))),
        }
    }

    /// Fails if a setting was not accepted by any drive so far.
    pub(crate) fn check(&self) -> Result<(), PaperError> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match known.values().flatten().next() {
            Some(refused) => Err(PaperError::NoDrive(Arc::clone(refused))),
            None => Ok(()),
        }
    }
}

/// Applies the user's settings to `drive`, which is `before` with the paper's changes.
pub(crate) fn over(
    preset: &str,
    before: &DriveConfig,
    drive: DriveConfig,
    options: &Options,
) -> Result<DriveConfig, PaperError> {
    if let Some(other) = options.sets.iter().find(|set| !set.starts_with("drive.")) {
        return Err(PaperError::NotDrive(other.clone()));
    }
    let table = |drive: &DriveConfig| Table::try_from(drive).unwrap_or_default();
    let mut changed = difference(&table(before), &table(&drive));
    changed.insert("preset".to_owned(), preset.into());
    let mut sets = options.sets.clone();
    // Retry without the settings and changes that have no effect on this drive.
    let given = loop {
        let experiment = Table::from_iter([("drive".to_owned(), Value::Table(changed.clone()))]);
        match Experiment::from_table(experiment, &sets, Path::new("")) {
            Ok(experiment) => break experiment.drive,
            Err(error) => match idle_key(&error) {
                // The user's key has no effect on this drive, but may have one on another drive of the paper.
                Some(key) if sets.iter().any(|set| key_of(set) == key) => {
                    let is_it = |set: &String| key_of(set) == key;
                    let set = sets.iter().position(is_it).map(|at| sets.remove(at));
                    options.taken.note(&set.unwrap_or_default(), Some(error));
                }
                // With the user's settings, a key that the paper sets has no effect: drop it.
                Some(key) if remove(&mut changed, &key.split('.').skip(1).collect::<Vec<_>>()) => {}
                _ => return Err(PaperError::Set(Box::new(error))),
            },
        }
    };
    let (given, mut whole) = (table(&given), table(&drive));
    for set in &sets {
        options.taken.note(set, None);
        // The paper's changes stay unless the user sets the same key.
        carry_over(&given, &mut whole, &key_of(set).split('.').skip(1).collect::<Vec<_>>());
    }
    Ok(whole.try_into().unwrap_or(drive))
}

fn key_of(set: &str) -> &str {
    set.split('=').next().unwrap_or_default().trim()
}

fn idle_key(error: &ConfigError) -> Option<String> {
    match error {
        ConfigError::Given { error, .. } | ConfigError::In { error, .. } => idle_key(error),
        ConfigError::NoEffect { key, .. } => Some(key.clone()),
        _ => None,
    }
}

fn difference(before: &Table, after: &Table) -> Table {
    let mut changed = Table::new();
    for (key, value) in after {
        match (before.get(key), value) {
            (Some(Value::Table(old)), Value::Table(new)) => {
                let inner = difference(old, new);
                if !inner.is_empty() {
                    changed.insert(key.clone(), inner.into());
                }
            }
            (old, new) if old == Some(new) => {}
            _ => drop(changed.insert(key.clone(), value.clone())),
        }
    }
    changed
}

/// Removes the value at `path`. True if it existed.
fn remove(from: &mut Table, path: &[&str]) -> bool {
    let [first, rest @ ..] = path else { return false };
    match (from.get_mut(*first), rest) {
        (Some(Value::Table(inner)), [_, ..]) => remove(inner, rest),
        (Some(_), []) => from.remove(*first).is_some(),
        _ => false,
    }
}

fn carry_over(from: &Table, to: &mut Table, path: &[&str]) {
    let [first, rest @ ..] = path else { return };
    match (from.get(*first), rest) {
        // A table may omit a default value, so a missing key means the default.
        (None, _) => drop(to.remove(*first)),
        (Some(Value::Table(inner)), [_, ..]) => {
            let place = to.entry(*first).or_insert_with(|| Table::new().into());
            if let Value::Table(place) = place {
                carry_over(inner, place, rest);
            }
        }
        (Some(value), _) => drop(to.insert((*first).to_owned(), value.clone())),
    }
}
