//! Write amplification compared with SepBIT's simulator, and the claims based on it.

use super::{CELLS, Counted, SCHEMES, VICTIMS};
use crate::figure::{percent_more, reduced};
use crate::table::Values;
use crate::{Figure, Row, View};

const REFERENCE: &str = include_str!("reference.csv");

/// Our simulations of the same rules on a drive of fixed size, averaged over other frames: scheme, cell,
/// write amplification under cost-benefit.
const FIXED: [(&str, &str, f64); 6] = [
    ("SepBIT", "Z10", 2.218),
    ("DAC", "Z10", 2.014),
    ("FK", "Z10", 2.237),
    ("SepBIT", "S10", 2.556),
    ("DAC", "S10", 2.546),
    ("FK", "S10", 2.344),
];

/// Simulator results under uniform writes, equal for every scheme except FK, which knows the future.
const UNIFORM: f64 = 3.479;
const UNIFORM_FUTURE: f64 = 3.302;

fn reference(scheme: &str, victim: &str, cell: &str) -> Option<f64> {
    if cell == "U" {
        return Some(if scheme == "FK" { UNIFORM_FUTURE } else { UNIFORM });
    }
    let mut lines = REFERENCE.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(','));
    let column = lines.next()?.position(|name| name == cell)?;
    let mut of_scheme = lines.find(|line| line.clone().take(2).eq([scheme, victim]))?;
    of_scheme.nth(column)?.parse().ok()
}

pub(super) fn counted(counted: &Counted) -> Vec<Figure> {
    [false, true].map(|is_fixed| bars(counted, is_fixed)).into()
}

fn bars(counted: &Counted, is_fixed: bool) -> Figure {
    let mut rows = Vec::new();
    for victim in VICTIMS {
        for cell in CELLS {
            for scheme in SCHEMES {
                let at = [
                    ("victim", victim.label),
                    ("writes", cell.what),
                    ("scheme", scheme.label),
                    ("unit", "units programmed per unit written"),
                ];
                let row = Row::new(&at, counted.of(scheme.label, victim.name, cell.name, is_fixed));
                // The simulator has no drive of fixed size.
                let known = reference(scheme.label, victim.name, cell.name).filter(|_| !is_fixed);
                rows.push(match known {
                    Some(number) => row.with_paper(number),
                    None => row,
                });
            }
        }
    }
    let (name, title) = if is_fixed {
        ("fixed", "write amplification of placement schemes, a drive of fixed size")
    } else {
        ("garbage-share", "write amplification of placement schemes, collected at a share of garbage")
    };
    Figure::new(name, title, View::Bars { panel: &["victim"], group: "writes", bar: "scheme" }, rows)
}

/// Deviations from the simulator in percent.
pub(super) fn values(counted: &Counted) -> Values {
    let mut values = Values::default();
    let skewed = || CELLS.iter().filter(|cell| cell.name != "U");
    for victim in VICTIMS {
        let off = |scheme: &str, cell: &str| {
            let measured = counted.of(scheme, victim.name, cell, false)?;
            Some(percent_more(measured, reference(scheme, victim.name, cell)?).abs())
        };
        for scheme in SCHEMES {
            let largest = reduced(skewed().map(|cell| off(scheme.label, cell.name)), f64::max);
            values.add(&format!("{} {}", scheme.label, victim.name), largest);
        }
        let uniform = reduced(SCHEMES.map(|scheme| off(scheme.label, "U")), f64::max);
        values.add(&format!("uniform {}", victim.name), uniform);
    }
    for (scheme, cell, number) in FIXED {
        let measured = counted.of(scheme, "cb", cell, true);
        values.add(
            &format!("fixed {scheme} {cell}"),
            measured.map(|measured| percent_more(measured, number).abs()),
        );
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_simulator_has_a_number_for_all_that_is_compared() {
        for victim in VICTIMS {
            for scheme in SCHEMES {
                for cell in CELLS {
                    let number = reference(scheme.label, victim.name, cell.name);
                    assert!(number.is_some_and(|number| number > 1.0), "{} {}", scheme.label, cell.name);
                }
            }
        }
    }
}
