use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::*;
use crate::Prng;

#[derive(Clone, Debug, PartialEq, Stored)]
enum Step {
    Idle,
    Reading(u32, bool),
    Moving { from: u64, to: Option<u64> },
}

#[derive(Clone, Debug, PartialEq, State)]
struct Queue {
    #[state(skip)]
    depth: u32,
    waiting: VecDeque<Step>,
    chance: Prng,
    #[state(table)]
    busy: Vec<bool>,
    #[state(part)]
    cache: Option<Vec<u16>>,
}

#[derive(Clone, Debug, PartialEq, Stored)]
struct Pair<A, B = bool>(A, B);

#[derive(Clone, Debug, Default, PartialEq, Stored)]
struct Nothing;

#[derive(Clone, Debug, PartialEq, State)]
struct Plant<'a, T, const N: usize>
where
    T: Clone,
{
    #[state(skip)]
    name: &'a str,
    main: T,
    #[state(table)]
    lines: Vec<T>,
    #[state(table)]
    marks: [u8; N],
    #[state(part)]
    spare: Option<Box<T>>,
}

fn saved(state: &impl State) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut out = StateWriter::new(&mut bytes);
    state.save_state(&mut out);
    out.finish().expect("a list takes all");
    bytes
}

fn load(state: &mut impl State, bytes: &[u8]) -> Result<bool, StateError> {
    let mut source = bytes;
    let mut from = StateReader::new(&mut source, bytes.len() as u64);
    state.load_state(&mut from)?;
    from.check_end()
}

fn queue(depth: u32) -> Queue {
    let busy = vec![false; depth as usize];
    Queue { depth, waiting: VecDeque::new(), busy, cache: Some(Vec::new()), chance: Prng::new(1) }
}

#[test]
fn a_part_goes_on_where_it_was_saved() {
    let mut queue = queue(3);
    queue.waiting.extend([Step::Idle, Step::Reading(7, true), Step::Moving { from: 1, to: Some(u64::MAX) }]);
    (queue.busy[1], queue.cache) = (true, Some(vec![1, 2, 3]));
    queue.chance.bits();
    let bytes = saved(&queue);
    let mut again = self::queue(3);
    assert!(load(&mut again, &bytes).expect("its own bytes"));
    assert_eq!(again, queue);
    assert_eq!(again.chance.bits(), queue.chance.bits());
}

#[test]
fn a_part_of_another_shape_is_refused() {
    let bytes = saved(&queue(3));
    assert!(matches!(load(&mut queue(4), &bytes), Err(StateError::Unfit(_))));
    let mut without = queue(3);
    without.cache = None;
    assert!(matches!(load(&mut without, &bytes), Err(StateError::Unfit(_))));
}

#[test]
fn whatever_is_cut_off_or_changed_gives_an_error_or_another_value_but_no_panic() {
    let mut queue = queue(3);
    queue.waiting.extend([Step::Idle, Step::Reading(7, true)]);
    let bytes = saved(&queue);
    for length in 0..bytes.len() {
        assert!(matches!(load(&mut self::queue(3), &bytes[..length]), Err(StateError::Short)), "{length}");
    }
    for at in 0..bytes.len() {
        for value in [0, 1, 2, 127, 255] {
            let mut changed = bytes.clone();
            changed[at] = value;
            // Includes lengths of 2^56 and more.
            let _ = load(&mut self::queue(3), &changed);
        }
    }
}

#[test]
fn bytes_are_those_of_the_fields_in_the_order_of_their_declaration() {
    assert_eq!(saved(&Pair(0x0201_u16, true)), [1, 2, 1]);
    assert_eq!(saved(&Nothing), []);
    assert_eq!(saved(&Step::Idle), [0]);
    assert_eq!(saved(&Step::Reading(5, false)), [1, 5, 0, 0, 0, 0]);
    assert_eq!(saved(&Step::Moving { from: 9, to: None }), [2, 9, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut plant = Plant { name: "a", main: 7_u8, lines: vec![8, 9], marks: [6], spare: None };
    assert_eq!(saved(&plant), [7, 2, 0, 0, 0, 0, 0, 0, 0, 8, 9, 1, 0, 0, 0, 0, 0, 0, 0, 6, 0]);
    plant.spare = Some(Box::new(4));
    assert_eq!(saved(&plant), [7, 2, 0, 0, 0, 0, 0, 0, 0, 8, 9, 1, 0, 0, 0, 0, 0, 0, 0, 6, 1, 4]);
}

#[test]
fn parts_of_parts_keep_what_the_configuration_made() {
    let plant = |name, depth| {
        let lines = vec![queue(depth), queue(depth + 1)];
        Plant {
            name,
            main: queue(depth),
            lines,
            marks: [depth as u8; 3],
            spare: Some(Box::new(queue(depth))),
        }
    };
    let mut written = plant("written", 2);
    written.lines[1].waiting.push_back(Step::Idle);
    written.spare.as_mut().expect("made with one").busy[1] = true;
    let mut read = plant("read", 2);
    assert!(load(&mut read, &saved(&written)).expect("the same configuration"));
    assert_eq!(read, Plant { name: "read", ..written.clone() });
    read.spare = None;
    assert!(matches!(load(&mut read, &saved(&written)), Err(StateError::Unfit(_))));
    assert!(matches!(load(&mut plant("other", 3), &saved(&written)), Err(StateError::Unfit(_))));
}

#[test]
fn a_variant_that_there_is_not_is_refused() {
    let mut step = Step::Idle;
    for number in 3..=u8::MAX {
        assert!(matches!(load(&mut step, &[number; 32]), Err(StateError::Unfit(_))), "{number}");
    }
    assert!(matches!(load(&mut step, &[]), Err(StateError::Short)));
    assert!(matches!(load(&mut step, &[1, 5, 0, 0, 0]), Err(StateError::Short)));
    assert!(matches!(load(&mut Pair(0_u16, true), &[1, 2]), Err(StateError::Short)));
}

#[test]
fn heaps_and_maps_keep_their_order() {
    let mut heap: BinaryHeap<Reverse<(u64, u32)>> =
        (0..100).map(|n| Reverse((n * 37 % 101, n as u32))).collect();
    heap.pop();
    let map: BTreeMap<u32, u128> = (0..50).map(|n| (n * 7, u128::MAX - u128::from(n))).collect();
    let bytes = saved(&heap);
    let mut again: BinaryHeap<Reverse<(u64, u32)>> = BinaryHeap::new();
    load(&mut again, &bytes).expect("its own bytes");
    assert_eq!(format!("{again:?}"), format!("{heap:?}"), "inside, too");
    let mut other: BTreeMap<u32, u128> = BTreeMap::new();
    load(&mut other, &saved(&map)).expect("its own bytes");
    assert_eq!(other, map);
}

#[test]
fn what_is_longer_than_the_buffers_comes_back() {
    let many: Vec<u32> = (0..1_000_000).map(|n: u32| n.wrapping_mul(0x9e37_79b9)).collect();
    let mut again: Vec<u32> = Vec::new();
    load(&mut again, &saved(&many)).expect("its own bytes");
    assert!(again == many);
}

#[test]
fn the_first_error_of_a_writer_is_kept() {
    let mut bytes = Vec::new();
    let mut out = StateWriter::new(&mut bytes);
    out.refuse("the first");
    out.refuse("the second");
    1u64.store(&mut out);
    assert!(matches!(out.finish(), Err(StateError::Unsaved("the first"))));
}
