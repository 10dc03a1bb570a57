//! A naive model of POSIX, which enumerates all name states that a power cut may leave.
//!
//! 1. Names change at random, and [`Names`] records it. Some folders are synced.
//! 2. The names are undone in a real folder, as a guest does it.
//! 3. The folder must equal a state of the model, in which each unsynced change took place or not. A rename is
//!    one change. If only its old folder was synced, the new name may be missing. No durable file that still
//!    has a name disappears.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use strobe_linux::guest::take_back;
use strobe_types::Prng;

use super::*;

type Inode = usize;
type Place = (Inode, String);
/// Paths: a file with its number, or a folder.
type Shape = BTreeMap<String, Option<Inode>>;

const TOP: Inode = 0;
const NAMES: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Default)]
struct Tree {
    entries: BTreeMap<Place, Inode>,
    folders: BTreeSet<Inode>,
}

#[derive(Clone, Debug)]
enum Op {
    Add(Place, Inode),
    Remove(Place, Inode),
    Move { from: Place, to: Place, inode: Inode, replaced: Option<Inode> },
    Swap(Place, Place, Inode, Inode),
}

/// Effect of a change on the state after a cut.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    No,
    Yes,
    /// The old name of a moved file is gone, and the new one is missing.
    Half,
}

struct Since {
    op: Op,
    may: Vec<Effect>,
}

impl Tree {
    fn has_entries(&self, folder: Inode) -> bool {
        self.entries.keys().any(|(parent, _)| *parent == folder)
    }

    fn is_within(&self, folder: Inode, outer: Inode) -> bool {
        let parent = self.entries.iter().find(|(_, inode)| **inode == folder).map(|((parent, _), _)| *parent);
        folder == outer || parent.is_some_and(|parent| self.is_within(parent, outer))
    }

    /// Returns false if `op` is impossible in this state.
    fn apply(&mut self, op: &Op, effect: Effect) -> bool {
        let holds = |tree: &Self, place: &Place, inode| tree.entries.get(place) == Some(inode);
        match op {
            Op::Add(place, inode) => self.entries.insert(place.clone(), *inode).is_none(),
            Op::Remove(place, inode) => {
                let can = holds(self, place, inode) && !self.has_entries(*inode);
                self.entries.remove(place);
                can
            }
            Op::Move { from, to, inode, replaced } => {
                let (there, is_here) = (self.entries.get(to).copied(), holds(self, from, inode));
                // A file may skip intermediate names, but a folder has one name.
                let is_free = there.is_none_or(|there| replaced.is_some() && !self.has_entries(there));
                let can = (is_here || !self.folders.contains(inode))
                    && (is_free || effect == Effect::Half)
                    && !self.is_within(to.0, *inode);
                if is_here {
                    self.entries.remove(from);
                }
                if effect == Effect::Yes {
                    self.entries.insert(to.clone(), *inode);
                }
                can
            }
            Op::Swap(one, other, first, second) => {
                let can = holds(self, one, first) && holds(self, other, second);
                self.entries.insert(one.clone(), *second);
                self.entries.insert(other.clone(), *first);
                can && !self.is_within(one.0, *second) && !self.is_within(other.0, *first)
            }
        }
    }

    fn shape(&self) -> Shape {
        let mut shape = Shape::new();
        self.walk(TOP, "", &mut |path, _, inode| {
            shape.insert(path.to_owned(), (!self.folders.contains(&inode)).then_some(inode));
        });
        shape
    }

    fn walk(&self, folder: Inode, path: &str, take: &mut dyn FnMut(&str, &Place, Inode)) {
        for (place, inode) in self.entries.iter().filter(|((parent, _), _)| *parent == folder) {
            let path = format!("{path}/{}", place.1);
            take(&path, place, *inode);
            self.walk(*inode, &path, take);
        }
    }

    fn names(&self) -> Vec<(String, Place, Inode)> {
        let mut names = Vec::new();
        self.walk(TOP, "", &mut |path, place, inode| names.push((path.to_owned(), place.clone(), inode)));
        names
    }

    fn make(&self, top: &Path) {
        for (path, inode) in self.shape() {
            let path = top.join(&path[1..]);
            match inode {
                Some(inode) => fs::write(path, inode.to_string()).expect("written"),
                None => fs::create_dir(path).expect("a folder"),
            }
        }
    }
}

fn found(top: &Path, path: &str, shape: &mut Shape) {
    for entry in fs::read_dir(top).expect("a folder").flatten() {
        let path = format!("{path}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            shape.insert(path.clone(), None);
            found(&entry.path(), &path, shape);
        } else {
            let inode = fs::read_to_string(entry.path()).expect("read").parse().expect("a number");
            shape.insert(path, Some(inode));
        }
    }
}

fn files(shape: &Shape) -> BTreeSet<Inode> {
    shape.values().flatten().copied().collect()
}

struct World {
    tree: Tree,
    durable: Tree,
    since: Vec<Since>,
    names: Names,
    next: Inode,
    story: Vec<String>,
}

impl World {
    fn new() -> Self {
        let mut tree = Tree { entries: BTreeMap::new(), folders: [TOP, 1, 2].into() };
        for (parent, name, inode) in [(TOP, "a", 1), (TOP, "b", 2), (TOP, "c", 3), (1, "a", 4), (2, "b", 5)] {
            tree.entries.insert((parent, name.to_owned()), inode);
        }
        let (durable, since, story) = (tree.clone(), Vec::new(), Vec::new());
        Self { tree, durable, since, names: Names::default(), next: 6, story }
    }

    fn does(&mut self, op: Op, what: String) {
        let mut tree = self.tree.clone();
        if tree.apply(&op, Effect::Yes) {
            self.tree = tree;
            self.story.push(what);
            self.since.push(Since { op, may: vec![Effect::Yes, Effect::No] });
        }
    }

    fn step(&mut self, prng: &mut Prng) {
        let names = self.tree.names();
        if names.is_empty() {
            return;
        }
        let mut pick = |count: usize| prng.below(count as u32) as usize;
        let mut folders = vec![(String::new(), TOP)];
        let depth = |path: &str| path.matches('/').count();
        folders.extend(
            names
                .iter()
                .filter(|(path, _, inode)| self.tree.folders.contains(inode) && depth(path) < 3)
                .map(|(path, _, inode)| (path.clone(), *inode)),
        );
        let (folder, inode) = folders[pick(folders.len())].clone();
        let name = NAMES[pick(NAMES.len())];
        let (path, place) = (format!("{folder}/{name}"), (inode, name.to_owned()));
        let there = self.tree.entries.get(&place).copied();
        let (other, from, moved) = names[pick(names.len())].clone();
        let is_folder = |inode| self.tree.folders.contains(&inode);
        let before = self.story.len();
        match (pick(9), there) {
            (0, None) => {
                self.does(Op::Add(place, self.next), format!("create {path}"));
            }
            (1, None) => {
                self.tree.folders.insert(self.next);
                self.does(Op::Add(place, self.next), format!("mkdir {path}"));
            }
            (2, None) if !is_folder(moved) => {
                self.does(Op::Add(place, moved), format!("link {other} {path}"));
            }
            (3, _) => self.does(Op::Remove(from, moved), format!("remove {other}")),
            (4, Some(there)) if there != moved => {
                self.does(Op::Swap(from, place, moved, there), format!("exchange {other} {path}"));
                if self.story.len() > before {
                    self.names.exchanged(&other, &path);
                }
                return;
            }
            (5, _) if self.story.len() > 1 => return self.sync(&folder, inode, pick(3) == 0),
            (_, replaced) if replaced.is_none_or(|there| is_folder(there) == is_folder(moved)) => {
                if replaced == Some(moved) {
                    return;
                }
                self.does(Op::Move { from, to: place, inode: moved, replaced }, format!("mv {other} {path}"));
                if self.story.len() > before {
                    self.names.renamed(&other, &path, replaced.is_none());
                }
                return;
            }
            _ => return,
        }
        // The operation was impossible.
        if self.story.len() == before {
            return;
        }
        match &self.since[self.since.len() - 1].op {
            Op::Remove(..) => self.names.removed(&other),
            _ => self.names.created(&path),
        }
        self.next += 1;
    }

    fn sync(&mut self, path: &str, folder: Inode, all: bool) {
        if all {
            self.story.push("sync".to_owned());
            self.names.all_synced(self.names.now());
            (self.durable, self.since) = (self.tree.clone(), Vec::new());
            return;
        }
        self.story.push(format!("sync {path}/"));
        self.names.folder_synced(if path.is_empty() { "/" } else { path }, self.names.now());
        for Since { op, may } in &mut self.since {
            let is_whole = match op {
                Op::Add(place, _) | Op::Remove(place, _) => place.0 == folder,
                Op::Move { to, .. } => to.0 == folder,
                Op::Swap(one, other, ..) => one.0 == folder || other.0 == folder,
            };
            // With only the old folder synced, the new name may be missing.
            let is_old = matches!(op, Op::Move { from, .. } if from.0 == folder);
            if is_whole {
                *may = vec![Effect::Yes];
            } else if is_old && may.contains(&Effect::No) {
                *may = vec![Effect::Yes, Effect::Half];
            }
        }
    }

    /// Durable files that still have a name, except files of which a name was removed.
    fn promised(&self) -> BTreeSet<Inode> {
        let mut promised = files(&self.tree.shape());
        promised.retain(|inode| files(&self.durable.shape()).contains(inode));
        for Since { op, .. } in &self.since {
            match op {
                Op::Remove(_, inode) | Op::Move { replaced: Some(inode), .. } => drop(promised.remove(inode)),
                _ => {}
            }
        }
        promised
    }

    fn allowed(&self) -> Vec<Shape> {
        let (mut states, promised) = (vec![(self.durable.clone(), false)], self.promised());
        for Since { op, may } in &self.since {
            let mut next = Vec::new();
            for (state, has_half) in &states {
                for &effect in may {
                    let mut state = state.clone();
                    state.folders.clone_from(&self.tree.folders);
                    if effect == Effect::No || state.apply(op, effect) {
                        next.push((state, *has_half || effect == Effect::Half));
                    }
                }
            }
            states = next;
        }
        let shapes = states.into_iter().map(|(state, has_half)| (state.shape(), has_half));
        shapes
            .filter(|(shape, half)| *half || promised.is_subset(&files(shape)))
            .map(|(shape, _)| shape)
            .collect()
    }

    fn taken_back(&self, tree: &Tree) -> Shape {
        let folder = tempfile::tempdir().expect("a folder");
        tree.make(folder.path());
        let undo = self.names.undo();
        take_back(folder.path(), &undo).unwrap_or_else(|error| {
            panic!("{error}\n{}\n{undo:?}\n{:?}", self.story.join("\n"), tree.shape())
        });
        let mut shape = Shape::new();
        found(folder.path(), "", &mut shape);
        shape
    }

    fn check(&self) {
        let what = || format!("{}\n{:?}", self.story.join("\n"), self.names.undo());
        let (left, promised) = (self.taken_back(&self.tree), self.promised());
        let has_half = self.since.iter().any(|since| since.may.contains(&Effect::Half));
        assert!(has_half || promised.is_subset(&files(&left)), "{promised:?} and not {left:?}:\n{}", what());
        // Removed or replaced content does not come back, whatever happened before. The sync of a folder covers
        // its current entries, not their history.
        let is_plain = |since: &Since| {
            matches!(since.op, Op::Add(..) | Op::Move { replaced: None, .. })
                && since.may.contains(&Effect::No)
        };
        if !self.since.iter().all(is_plain) {
            return;
        }
        assert!(self.allowed().contains(&left), "no cut leaves {left:?}:\n{}", what());
        // Two exchanged files look like two unchanged ones.
        let is_new = |op: &Op| match op {
            Op::Move { to, .. } => !self.durable.entries.contains_key(to),
            _ => true,
        };
        if self.since.iter().all(|since| is_new(&since.op)) {
            assert_eq!(left, self.durable.shape(), "not all is taken back:\n{}", what());
        }
        // The file system may have kept only the first changes. If a name is used twice, states are ambiguous.
        let mut places: BTreeSet<&Place> = self.durable.entries.keys().collect();
        let is_taken_twice = self.since.iter().any(|since| match &since.op {
            Op::Move { to, .. } | Op::Add(to, _) => !places.insert(to),
            Op::Remove(..) | Op::Swap(..) => true,
        });
        if is_taken_twice {
            return;
        }
        let mut tree = Tree { folders: self.tree.folders.clone(), ..self.durable.clone() };
        for at in 0..self.since.len() {
            if self.since[at..].iter().all(|since| since.may.contains(&Effect::No)) {
                let left = files(&self.taken_back(&tree));
                assert!(promised.is_subset(&left), "{promised:?} and not {left:?} after {at} of\n{}", what());
            }
            assert!(tree.apply(&self.since[at].op, Effect::Yes));
        }
    }
}

#[test]
fn names_are_taken_back_to_a_state_that_a_cut_may_leave() {
    for seed in 0..CASES {
        let (mut world, mut prng) = (World::new(), Prng::derive(seed, "names"));
        for _ in 0..1 + prng.below(9) {
            world.step(&mut prng);
            // The number of states is exponential in the number of changes.
            if world.since.len() == 6 {
                break;
            }
        }
        world.check();
    }
}

const CASES: u64 = 1000;
