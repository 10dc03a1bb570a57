//! Replay of the live log.

use super::Journal;
use super::format::{Clock, Content, LogPage, Record, WORDS_PER_ENTRY};
use crate::recovery::damaged;
use crate::{Recovery, RecoveryError};

pub(crate) struct Tables {
    pub(crate) map_words: u64,
    /// The map, then the virtual map.
    pub(crate) words: Vec<u32>,
    /// Stream, lane, block and programmed pages.
    pub(crate) open: Vec<[u32; 4]>,
    pub(crate) retiring: Vec<u32>,
    pub(crate) clock: Clock,
}

impl Tables {
    pub(crate) fn of(
        pages: &[LogPage],
        journal: &Journal,
        report: &mut Recovery,
    ) -> Result<Self, RecoveryError> {
        let mut tables = Self {
            map_words: journal.map_words,
            words: vec![0; journal.words as usize],
            open: Vec::new(),
            retiring: Vec::new(),
            clock: Clock::default(),
        };
        let mut at = 0;
        while let Some(page) = pages.get(at) {
            match &page.content {
                Content::Segment(words) => {
                    let range = journal.words_of(page.number.min(journal.segments()));
                    let is_ours = page.count == journal.segments() && page.number < page.count;
                    if !is_ours || words.len() as u64 != range.end - range.start {
                        return damaged("a checkpoint is for a drive of another size".into());
                    }
                    tables.words[range.start as usize..range.end as usize].copy_from_slice(words);
                    report.segments += 1;
                    at += 1;
                }
                // Incomplete epochs are skipped: an epoch counts only with all its pages.
                Content::Journal(_) => {
                    let pages_of_it = epoch_at(&pages[at..]);
                    if page.number == 0 && pages_of_it.len() == page.count as usize {
                        tables.apply(pages_of_it)?;
                        report.epochs += 1;
                    }
                    at += pages_of_it.len();
                }
            }
        }
        Ok(tables)
    }

    fn apply(&mut self, pages: &[LogPage]) -> Result<(), RecoveryError> {
        // Each epoch lists all open and retiring blocks, so the lists of earlier epochs are obsolete.
        self.open.clear();
        self.retiring.clear();
        for page in pages {
            self.clock = page.clock;
            let Content::Journal(records) = &page.content else { continue };
            for &record in records {
                if self.apply_record(record).is_none() {
                    return damaged(format!(
                        "epoch {} has {record:?}, which does not fit the drive",
                        page.epoch
                    ));
                }
            }
        }
        Ok(())
    }

    fn apply_record(&mut self, record: Record) -> Option<()> {
        match record {
            Record::Map { lpn, entry, count } => {
                let end = lpn.checked_add(count).filter(|&end| u64::from(end) <= self.map_words)?;
                // Consecutive logical units have consecutive flash units; an entry of 0 unmaps them all.
                entry.checked_add(count)?;
                for (word, at) in self.words[lpn as usize..end as usize].iter_mut().zip(0..) {
                    *word = if entry == 0 { 0 } else { entry + at };
                }
            }
            Record::Shared { vpn, entry, owners } => {
                let first = usize::try_from(self.map_words + u64::from(vpn) * WORDS_PER_ENTRY).ok()?;
                self.words
                    .get_mut(first..first + WORDS_PER_ENTRY as usize)?
                    .copy_from_slice(&[entry, owners[0], owners[1]]);
            }
            Record::Open { stream, lane, block, pages } => self.open.push([stream, lane, block, pages]),
            Record::Retiring { block } => self.retiring.push(block),
        }
        Some(())
    }
}

fn epoch_at(pages: &[LogPage]) -> &[LogPage] {
    let (epoch, count) = (pages[0].epoch, pages[0].count);
    let belongs = |(number, page): &(u32, &LogPage)| {
        matches!(page.content, Content::Journal(_))
            && (page.epoch, page.number, page.count) == (epoch, *number, count)
    };
    let length = (0..).zip(pages).take_while(belongs).count();
    &pages[..length.max(1)]
}
