//! Kinds of cut points. Flash operations are of one kind if the program and the drive do the same at them,
//! ignoring numbers.

use std::collections::{BTreeMap, BTreeSet};

use super::file_log::{FileLog, UnderWay};
use super::line::{FileCall, Origin};
use super::source::{Caller, Sources};

/// Most writes and files that a kind depends on, so that each operation costs little.
const LOOKED_AT: usize = 64;

/// Description of a kind without numbers, and the callers of the last call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    text: String,
    callers: Vec<Caller>,
}

impl Kind {
    /// `cached` are the origins of completed writes that are not durable, newest first, and `unsent` the files
    /// with data that was not sent.
    pub(super) fn of<'a>(
        under_way: impl Iterator<Item = &'a UnderWay>,
        cached: impl Iterator<Item = &'a Origin>,
        unsent: impl Iterator<Item = &'a str>,
        files: &FileLog,
    ) -> Self {
        let mut parts = sorted(under_way.map(command));
        let cached = cached.take(LOOKED_AT).map(data).filter(|data| data != "none");
        parts.extend(sorted(cached).iter().map(|data| format!("{data} in cache")));
        parts.extend(sorted(unsent.take(LOOKED_AT).map(|path| format!("{path} not sent"))));
        parts.extend(files.syncs().iter().map(|sync| format!("in {}", call(sync))));
        let last = files.last();
        parts.extend(last.as_ref().map(|last| format!("after {}", call(last))));
        Self { text: parts.join(", "), callers: last.map(|last| last.callers).unwrap_or_default() }
    }
}

/// Texts without numbers, each once.
fn sorted(texts: impl Iterator<Item = String>) -> Vec<String> {
    let texts: BTreeSet<String> = texts.map(|text| without_numbers(&text)).collect();
    texts.into_iter().collect()
}

fn command(of: &UnderWay) -> String {
    match of.origins.first() {
        Some(origin) if origin.kind == "none" => format!("{} by {}", of.command, origin.process),
        Some(origin) => format!("{} of {} by {}", of.command, data(origin), origin.process),
        None => of.command.to_owned(),
    }
}

fn data(of: &Origin) -> String {
    if of.path.is_empty() { of.kind.clone() } else { of.path.clone() }
}

fn call(of: &FileCall) -> String {
    let to = of.to.as_ref().map(|to| format!(" to {to}")).unwrap_or_default();
    without_numbers(&format!("{} {}{to}", of.call, of.path)).trim_end().to_owned()
}

/// Replaces each run of digits by `#`.
fn without_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for symbol in text.chars() {
        if !symbol.is_ascii_digit() {
            out.push(symbol);
        } else if !out.ends_with('#') {
            out.push('#');
        }
    }
    out
}

/// Kind of each flash operation, in order, as recorded during a run.
#[derive(Default)]
pub(super) struct Recorded {
    /// First operation of each run of operations of one kind.
    runs: Vec<(u64, usize)>,
    numbers: BTreeMap<Kind, usize>,
}

impl Recorded {
    /// Records that operations from `first` on are of `kind`.
    pub(super) fn record(&mut self, first: u64, kind: Kind) {
        let next = self.numbers.len();
        let number = *self.numbers.entry(kind).or_insert(next);
        if self.runs.last().is_none_or(|(_, last)| *last != number) {
            self.runs.push((first, number));
        }
    }

    /// Replaces callers by the function that made the call, so that the text outlives changes of the program
    /// elsewhere.
    pub(super) fn named(self, sources: &Sources) -> Kinds {
        let mut texts = vec![String::new(); self.numbers.len()];
        for (kind, number) in self.numbers {
            let line = sources.line(&kind.callers).filter(|line| !line.function.is_empty());
            texts[number] = match line {
                Some(line) => format!("{} in {}", kind.text, line.function),
                None => kind.text,
            };
        }
        let mut runs: Vec<(u64, String)> =
            self.runs.into_iter().map(|(first, number)| (first, texts[number].clone())).collect();
        // Callers may differ where the function is the same.
        runs.dedup_by(|next, run| next.1 == run.1);
        Kinds { runs }
    }
}

/// Kind of each flash operation of a program, as text.
#[derive(Default)]
pub(super) struct Kinds {
    /// First operation of each run of operations of one kind.
    runs: Vec<(u64, String)>,
}

impl Kinds {
    /// Kind of an operation: its text, and its place among its neighbours of that text, rounded down to a power
    /// of two.
    pub(super) fn at(&self, operation: u64) -> String {
        let next = self.runs.partition_point(|(first, _)| *first <= operation);
        let Some((first, text)) = next.checked_sub(1).map(|index| &self.runs[index]) else {
            return String::new();
        };
        named(text, (operation - first + 1).ilog2())
    }

    /// Chooses up to `cuts` of the operations `first..=last`, in order: the first of each kind, then the second
    /// of each, and so on. Leaves out kinds for which `is_seen` is true.
    pub(super) fn choose(
        &self,
        (first, last): (u64, u64),
        cuts: usize,
        is_seen: impl Fn(&str) -> bool,
    ) -> Vec<u64> {
        let mut rounds: BTreeMap<String, usize> = BTreeMap::new();
        let mut ranked: Vec<(usize, u64)> = Vec::new();
        for (index, (from, text)) in self.runs.iter().enumerate() {
            let to = self.runs.get(index + 1).map_or(last, |(next, _)| (next - 1).min(last));
            let steps = (0..63).map(|step| (step, from + (1 << step) - 1));
            for (step, operation) in steps.take_while(|(_, operation)| *operation <= to) {
                let kind = named(text, step);
                if operation >= first && !is_seen(&kind) {
                    let round = rounds.entry(kind).or_default();
                    ranked.push((*round, operation));
                    *round += 1;
                }
            }
        }
        ranked.sort_unstable();
        let mut chosen: Vec<u64> = ranked.into_iter().map(|(_, operation)| operation).take(cuts).collect();
        chosen.sort_unstable();
        chosen
    }
}

fn named(text: &str, step: u32) -> String {
    format!("{text} [{}]", 1_u64 << step)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> Kind {
        Kind { text: text.to_owned(), callers: Vec::new() }
    }

    #[test]
    fn numbers_do_not_make_kinds() {
        assert_eq!(without_numbers("/000012.log, 7"), "/#.log, #");
        let of = |log: &str| {
            let mut files = FileLog::default();
            files.hear(log.as_bytes());
            Kind::of([].iter(), [].iter(), ["/f1", "/f2"].into_iter(), &files)
        };
        assert_eq!(of("write\t1\tsh\t/db-1\t0\t1\n").text, "/f# not sent, after write /db-#");
        assert_eq!(of("unlink\t1\tsh\t/db-1\n"), of("unlink\t1\tsh\t/db-22\n"));
        assert_ne!(of("unlink\t1\tsh\t/db-1\n"), of("unlink\t1\tsh\t/wal-1\n"));
        assert_ne!(of("unlink\t1\tsh\t/a\nfsync\t1\tsh\t/a\n"), of("unlink\t1\tsh\t/a\n"));
    }

    #[test]
    fn each_kind_is_cut_before_any_is_cut_twice() {
        let mut recorded = Recorded::default();
        // Operations 11 to 40: a b a c a b, five of each run. An operation is a kind with its place in the run.
        for (index, text) in ["a", "b", "a", "c", "a", "b"].into_iter().enumerate() {
            recorded.record(11 + 5 * index as u64, kind(text));
            recorded.record(12 + 5 * index as u64, kind(text));
        }
        let kinds = recorded.named(&Sources::default());
        let texts = [10, 11, 12, 13, 15, 16, 26, 30, 99].map(|at| kinds.at(at));
        assert_eq!(texts, ["", "a [1]", "a [2]", "a [2]", "a [4]", "b [1]", "c [1]", "c [4]", "b [64]"]);
        let choose = |cuts| kinds.choose((11, 40), cuts, |_| false);
        assert_eq!(choose(9), [11, 12, 14, 16, 17, 19, 26, 27, 29]);
        assert_eq!(choose(11), [11, 12, 14, 16, 17, 19, 21, 22, 26, 27, 29]);
        assert_eq!(choose(99).len(), 18);
        let unseen = kinds.choose((11, 40), 9, |kind| kind.starts_with('a'));
        assert_eq!(unseen, [16, 17, 19, 26, 27, 29, 36, 37, 39]);
        assert_eq!(kinds.choose((13, 18), 9, |_| false), [14, 16, 17]);
    }
}
