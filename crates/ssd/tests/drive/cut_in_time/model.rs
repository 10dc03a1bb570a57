//! Model of the contents that each sector may have after a power cut, given the completions that the host has
//! seen.
//!
//! Outstanding commands have no order among themselves. An older content is therefore impossible only if a
//! durable one was submitted after the older one had completed.

pub(super) type Moment = u64;

const NEVER: Moment = u64::MAX;

/// A content written to a sector; content 0 is zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    content: u64,
    submitted: Moment,
    completed: Moment,
}

#[derive(Clone, Debug)]
pub(super) struct Model {
    sectors: Vec<Vec<Version>>,
    now: Moment,
}

impl Model {
    pub(super) fn new(contents: &[u64]) -> Self {
        let version = |&content| vec![Version { content, submitted: 0, completed: 0 }];
        Self { sectors: contents.iter().map(version).collect(), now: 1 }
    }

    pub(super) fn sectors(&self) -> u64 {
        self.sectors.len() as u64
    }

    pub(super) fn moment(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    pub(super) fn submit(&mut self, sector: u64, content: u64, submitted: Moment) {
        self.sectors[sector as usize].push(Version { content, submitted, completed: NEVER });
    }

    pub(super) fn complete(&mut self, sector: u64, submitted: Moment, is_durable: bool) {
        let now = self.now;
        let versions = &mut self.sectors[sector as usize];
        let of_command = |version: &&mut Version| version.submitted == submitted;
        if let Some(version) = versions.iter_mut().find(of_command) {
            version.completed = now;
        }
        if is_durable {
            versions.retain(|version| version.completed >= submitted);
        }
    }

    pub(super) fn flushed(&mut self, submitted: Moment) {
        for versions in &mut self.sectors {
            if versions.len() > 1 {
                let durable = versions.iter().filter(|version| version.completed < submitted);
                let newest = durable.map(|version| version.submitted).max().unwrap_or(0);
                versions.retain(|version| version.completed >= newest);
            }
        }
    }

    /// Content of `sector`; `None` while a command is in flight there or the content is ambiguous.
    pub(super) fn known(&self, sector: u64) -> Option<u64> {
        let versions = &self.sectors[sector as usize];
        let last = versions.last()?;
        let is_over = |version: &Version| version == last || version.completed < last.submitted;
        (last.completed != NEVER && versions.iter().all(is_over)).then_some(last.content)
    }

    pub(super) fn verify(&self, read: &[u64], what: &dyn Fn() -> String) {
        for (sector, (versions, content)) in self.sectors.iter().zip(read).enumerate() {
            let is_legal = versions.iter().any(|version| version.content == *content);
            assert!(is_legal, "{}: sector {sector} reads {content}, not one of {versions:?}", what());
        }
    }

    pub(super) fn verify_newest(&self, read: &[u64], what: &dyn Fn() -> String) {
        for (sector, content) in (0..).zip(read) {
            if let Some(known) = self.known(sector) {
                assert_eq!(known, *content, "{}: sector {sector}", what());
            }
        }
    }

    pub(super) fn observe(&mut self, read: &[u64]) {
        let now = self.moment();
        for (versions, &content) in self.sectors.iter_mut().zip(read) {
            *versions = vec![Version { content, submitted: now, completed: now }];
        }
    }
}
