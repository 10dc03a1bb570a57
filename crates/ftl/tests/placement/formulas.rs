//! Formula placements and their meaning in plain Rust.

use std::collections::BTreeMap;

use super::UNITS;
use super::naive::Rules;

#[derive(Default)]
struct Unit {
    writes: Vec<u64>,
    copies: u32,
    streams: Vec<i32>,
}

impl Unit {
    fn age(&self, now: u64) -> f64 {
        (now + 1 - self.writes.last().copied().unwrap_or(0)) as f64
    }

    fn interval(&self, now: u64) -> f64 {
        match self.writes[..] {
            [] => (now + 1) as f64,
            [first] => first as f64,
            [.., before, last] => (last - before) as f64,
        }
    }

    fn stream(&self) -> f64 {
        f64::from(self.streams.last().copied().unwrap_or(-1))
    }
}

struct Meaning {
    text: &'static str,
    streams: (usize, usize),
    value: fn(lpn: u32, unit: &Unit, now: u64, is_copy: bool) -> f64,
}

const MEANINGS: [Meaning; 5] = [
    Meaning { text: "is_copy", streams: (2, 1), value: |_, _, _, is_copy| if is_copy { 1.0 } else { 0.0 } },
    Meaning {
        text: "stream + 1 - 2 * is_copy",
        streams: (6, 5),
        value: |_, unit, _, is_copy| if is_copy { unit.stream() - 1.0 } else { unit.stream() + 1.0 },
    },
    Meaning {
        text: "(1 - is_copy) * min(age / 300, 1) + is_copy * (2 + max(0, min(3, sqrt(age / 500) - 1)))",
        streams: (6, 4),
        value: |_, unit, now, is_copy| {
            let age = unit.age(now);
            // The value rises by one at each of these ages.
            let (first, ages): (f64, &[f64]) =
                if is_copy { (2.0, &[2000.0, 4500.0, 8000.0]) } else { (0.0, &[300.0]) };
            first + ages.iter().filter(|&&reached| age >= reached).count() as f64
        },
    },
    Meaning {
        text: "writes / 4 + copies",
        streams: (6, 6),
        value: |_, unit, _, _| (unit.writes.len() as f64 / 4.0 + f64::from(unit.copies)).floor(),
    },
    Meaning {
        text: "interval / 1500 + 2 * address - is_copy",
        streams: (6, 6),
        value: |lpn, unit, now, is_copy| {
            let value = unit.interval(now) / 1500.0 + 2.0 * (f64::from(lpn) / f64::from(UNITS));
            (value - if is_copy { 1.0 } else { 0.0 }).floor()
        },
    },
];

pub(super) const FORMULAS: [&str; 5] =
    [MEANINGS[0].text, MEANINGS[1].text, MEANINGS[2].text, MEANINGS[3].text, MEANINGS[4].text];

pub(super) struct ByMeaning {
    meaning: &'static Meaning,
    units: BTreeMap<u32, Unit>,
    chosen: BTreeMap<(bool, i32), u64>,
}

pub(super) fn rules(text: &str) -> ByMeaning {
    let meaning = MEANINGS.iter().find(|meaning| meaning.text == text).expect("a formula of the list");
    ByMeaning { meaning, units: BTreeMap::new(), chosen: BTreeMap::new() }
}

impl ByMeaning {
    fn choose(&mut self, lpn: u32, now: u64, is_copy: bool) -> usize {
        let unit = self.units.entry(lpn).or_default();
        let stream = ((self.meaning.value)(lpn, unit, now, is_copy) as i32).clamp(0, 5);
        unit.streams.push(stream);
        *self.chosen.entry((is_copy, stream)).or_default() += 1;
        stream as usize
    }
}

impl Rules for ByMeaning {
    fn streams(&self) -> (usize, usize) {
        self.meaning.streams
    }

    fn write(&mut self, lpn: u32, now: u64) -> usize {
        // The history does not include this write yet.
        let stream = self.choose(lpn, now - 1, false);
        let unit = self.units.entry(lpn).or_default();
        unit.writes.push(now);
        unit.copies = 0;
        stream
    }

    fn copy(&mut self, lpn: u32, now: u64, _: usize) -> usize {
        let stream = self.choose(lpn, now, true);
        self.units.entry(lpn).or_default().copies += 1;
        stream
    }

    fn is_exercised(&self) -> bool {
        // Each stream of the host and of relocated units was chosen, except the first one of a formula that
        // always exceeds it.
        self.chosen.len() >= self.meaning.streams.0 && self.chosen.values().all(|&times| times > 20)
    }
}
