//! Kinds of cut points. Flash operations are of one kind if the program and the drive do the same at them,
//! ignoring numbers.

use std::collections::{BTreeMap, BTreeSet};

use super::file_log::UnderWay;
use super::line::{FileCall, Origin};
use super::place::Place;
use super::source::{Caller, Sources};

/// Description of a kind without numbers, and the callers of the last call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    text: String,
    callers: Vec<Caller>,
}

impl Kind {
    pub(super) fn of(place: &Place) -> Self {
        let mut parts = sorted(place.under_way.iter().map(command));
        let cached = place.unflushed.iter().filter(|write| write.completed.is_some());
        let cached = sorted(cached.map(|write| data(&write.piece.origin)).filter(|data| data != "none"));
        parts.extend(cached.iter().map(|data| format!("{data} in cache")));
        parts.extend(sorted(place.unsent.iter().map(|data| format!("{} not sent", data.path))));
        parts.extend(place.syncs.iter().map(|sync| format!("in {}", call(sync))));
        parts.extend(place.last_call.as_ref().map(|last| format!("after {}", call(last))));
        let callers = place.last_call.as_ref().map(|last| last.callers.clone()).unwrap_or_default();
        Self { text: parts.join(", "), callers }
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
        let runs = self.runs.into_iter().map(|(first, number)| (first, texts[number].clone())).collect();
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
        let call =
            |path: &str| FileCall { call: "write".to_owned(), path: path.to_owned(), ..FileCall::default() };
        let of = |path: &str, syncs: &[FileCall]| {
            Kind::of(&Place { syncs: syncs.to_vec(), last_call: Some(call(path)), ..Place::default() })
        };
        assert_eq!(of("/db-1", &[]).text, "after write /db-#");
        assert_eq!(of("/db-1", &[]), of("/db-22", &[]));
        assert_ne!(of("/db-1", &[]), of("/wal-1", &[]));
        assert_ne!(of("/db-1", &[]), of("/db-1", &[call("/db-1")]));
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
