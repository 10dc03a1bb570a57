use strobe_types::{Geometry, GeometrySpec, Prng, State, StateReader, StateWriter};

use super::super::Issue;
use super::*;

const DIES: u32 = 8;
const PAGES: u32 = 256;

fn board() -> Geometry {
    let spec = GeometrySpec {
        channels: 2,
        dies_per_channel: DIES / 2,
        planes_per_die: 1,
        blocks_per_plane: 4,
        pages_per_block: PAGES,
        page_bytes: 4096,
        unit_bytes: 4096,
    };
    Geometry::new(spec).expect("valid")
}

fn in_order() -> ArrayTiming {
    ArrayTiming::new(TimingConfig { issue: Issue::InOrder, ..config() }, &board())
}

fn any_line(seed: u64, count: u32) -> Vec<(u32, bool)> {
    let mut rng = Prng::new(seed);
    (0..count).map(|_| (rng.below(DIES), rng.below(10) == 0)).collect()
}

fn naive(line: &[(u32, bool)]) -> Vec<u64> {
    let (mut busy, mut bus, mut begun) = ([0; DIES as usize], [0; 2], 0);
    let mut ends = Vec::new();
    for &(die, is_erase) in line {
        let free = &mut busy[die as usize];
        begun = begun.max(*free);
        *free = if is_erase {
            begun + ERASE
        } else {
            let bus = &mut bus[(die / (DIES / 2)) as usize];
            *bus = begun.max(*bus) + TRANSFER;
            *bus + PROGRAM
        };
        ends.push(*free);
    }
    ends
}

fn issue(array: &mut ArrayTiming, line: &[(u32, bool)]) -> Vec<When> {
    let mut pages = [0; DIES as usize];
    line.iter()
        .map(|&(die, is_erase)| {
            let (block, page) = if is_erase { (3, 0) } else { (0, pages[die as usize]) };
            pages[die as usize] += u32::from(!is_erase);
            let place = || board().place(board().page(BlockId::new(die * 4 + block), page));
            if is_erase {
                array.erase(NOW, Class::Erase, place)
            } else {
                array.program(NOW, Class::HostProgram, place)
            }
        })
        .collect()
}

#[test]
fn the_head_of_the_line_holds_up_all_dies() {
    for seed in 0..20 {
        let line = any_line(seed, 400);
        let expected = naive(&line);
        let mut array = in_order();
        let whens = issue(&mut array, &line);
        let mut last = (0, 0);
        for (&when, &expected) in whens.iter().zip(&expected) {
            // A later operation may complete earlier, so running maxima are compared.
            let end = array.finish(when).as_ns();
            last = (last.0.max(end), last.1.max(expected));
            assert_eq!(last.0, last.1, "seed {seed}");
        }
        // With per-die issue, operations wait for their own die only, so the run is shorter.
        let mut per_die = ArrayTiming::new(config(), &board());
        let _ = issue(&mut per_die, &line);
        assert!(per_die.drain().as_ns() * 5 < last.0 * 4, "seed {seed}");
    }
}

#[test]
fn a_line_that_is_saved_goes_on_where_it_was() {
    let line = any_line(7, 200);
    let mut array = in_order();
    let _ = issue(&mut array, &line);
    array.run(SimTime::from_ns(20 * PROGRAM));
    let mut bytes = Vec::new();
    let mut out = StateWriter::new(&mut bytes);
    array.save_state(&mut out);
    out.finish().expect("a list takes all");
    let length = bytes.len() as u64;
    let mut loaded = in_order();
    loaded.load_state(&mut StateReader::new(&mut bytes.as_slice(), length)).expect("a state");
    assert_eq!(loaded.drain(), array.drain());
    assert_eq!(array.now().as_ns(), naive(&line).into_iter().max().expect("some"));
}
