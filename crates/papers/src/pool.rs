//! Parallel computation of a paper's points, with a store of finished ones.

use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use strobe_lab::points::{Store, StoreError, Watch, in_parallel, key};

use super::{PaperError, Taken};

pub(super) struct Bench<'a> {
    pub(super) watch: &'a dyn Watch,
    pub(super) store: Option<Mutex<Store<Value>>>,
    /// Points run only if every setting was accepted by some drive.
    pub(super) taken: &'a Taken,
}

impl Bench<'_> {
    pub(super) fn points<P: Serialize + Sync, R: Serialize + DeserializeOwned + Send>(
        &self,
        kind: &str,
        points: &[P],
        work: impl Fn(&P) -> Result<R, PaperError> + Sync,
    ) -> Result<Vec<R>, PaperError> {
        self.taken.check()?;
        let results = in_parallel(points, self.watch, |point| {
            // Kind and fields of a point identify it: finished points are not recomputed.
            let key = key(kind, point);
            let known = self.with_store(|store| store.find(&key))?.flatten();
            // A value of another form was stored by an older build: compute it again.
            if let Some(known) = known.and_then(|value| serde_json::from_value(value).ok()) {
                return Ok(known);
            }
            let result = work(point)?;
            if self.watch.stopped() {
                // A stopped drive may have abandoned a command, so its result is not stored.
                return Err(PaperError::Interrupted);
            }
            self.with_store(|store| {
                let value = serde_json::to_value(&result).expect("results are plain data");
                store.keep(&key, &value)
            })?;
            Ok(result)
        })?;
        results.ok_or(PaperError::Interrupted)
    }

    fn with_store<O>(
        &self,
        act: impl FnOnce(&mut Store<Value>) -> Result<O, StoreError>,
    ) -> Result<Option<O>, StoreError> {
        let store = self.store.as_ref().map(|store| store.lock().unwrap_or_else(PoisonError::into_inner));
        store.map(|mut store| act(&mut store)).transpose()
    }
}
