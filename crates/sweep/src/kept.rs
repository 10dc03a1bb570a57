//! Description of a sweep, stored in its folder. A report thus needs no sweep file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{SweepError, SweepFile};

const FILE: &str = "sweep.json";

#[derive(Serialize, Deserialize)]
struct SavedSweep {
    /// Sweep file with `--set` applied.
    sweep: String,
    folder: PathBuf,
    own: BTreeMap<String, String>,
}

impl SweepFile {
    pub(crate) fn keep(&self, folder: &Path) -> Result<(), SweepError> {
        let saved = SavedSweep {
            sweep: self.text.clone(),
            folder: std::path::absolute(&self.folder).unwrap_or_else(|_| self.folder.clone()),
            own: self.own.clone(),
        };
        let text = serde_json::to_string_pretty(&saved).expect("a description is plain data");
        let path = folder.join(FILE);
        std::fs::write(&path, text + "\n").map_err(|error| SweepError::File { path, error })
    }

    /// Reads the description kept in `folder`.
    pub fn kept(folder: &Path) -> Result<Self, SweepError> {
        let path = folder.join(FILE);
        let text = std::fs::read_to_string(&path).map_err(|error| SweepError::NotDescribed {
            path: folder.to_owned(),
            error: error.to_string(),
        })?;
        let wrong = |error: String| SweepError::NotDescribed { path: folder.to_owned(), error };
        let saved: SavedSweep = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let table = saved.sweep.parse().map_err(|error: toml::de::Error| wrong(error.to_string()))?;
        Ok(Self { own: saved.own, ..Self::of(table, &saved.folder)? })
    }
}
