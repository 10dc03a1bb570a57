use std::path::Path;

use strobe_lab::{MODEL, points};

use crate::{Outcome, SweepError};

const POINTS: &str = "points.jsonl";

/// Outcomes of finished points by key.
pub type Store = points::Store<Outcome>;

/// Opens the store in `folder`, creating the folder if needed. The store is locked until dropped.
pub fn open_store(folder: &Path) -> Result<Store, SweepError> {
    let path = folder.join(POINTS);
    if let Ok(mut entries) = folder.read_dir()
        && entries.next().is_some()
        && !path.exists()
    {
        return Err(SweepError::Foreign { path: folder.to_owned() });
    }
    std::fs::create_dir_all(folder).map_err(|error| SweepError::File { path: folder.to_owned(), error })?;
    Ok(Store::open(&path, &format!("sweep, model {MODEL}"))?)
}

/// True if `folder` holds a sweep.
pub fn has_store(folder: &Path) -> bool {
    folder.join(POINTS).is_file()
}
