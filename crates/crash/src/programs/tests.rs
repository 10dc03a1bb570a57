use super::*;

fn path(text: &str) -> String {
    text.to_owned()
}

fn write(path: &str, at: u64, bytes: u64, fill: char) -> Op {
    Op::Write { path: path.to_owned(), at, bytes, fill }
}

fn tree_of(program: &Program) -> Tree {
    let mut model = Model::new();
    program.0.iter().for_each(|op| assert!(model.apply(op), "{op:?}"));
    let entry = |(path, node): (&String, &model::Node)| {
        let found = match node {
            model::Node::Folder => Entry::Folder,
            model::Node::File(number) => Entry::File(model.data[*number].clone()),
        };
        (path.clone(), found)
    };
    model.names.iter().map(entry).collect()
}

#[test]
fn programs_are_possible_differ_and_are_the_same_again() {
    let mut seen = std::collections::BTreeSet::new();
    for number in 0..500 {
        let program = Program::random(7, number, 6);
        assert_eq!(program.0.len(), 7);
        assert!(program.is_possible());
        assert_eq!(program, Program::random(7, number, 6));
        // A file system that loses nothing keeps every guarantee.
        let tree = tree_of(&program);
        assert_eq!(program.broken_promise(7, &tree), None, "{program:?}");
        seen.insert(program.script());
    }
    assert!(seen.len() > 490, "{}", seen.len());
}

#[test]
fn what_is_not_kept_is_named() {
    let program = Program(vec![
        Op::Create(path("B/y")),
        write("B/y", 0, 3000, 'a'),
        Op::Fsync(path("B/y")),
        Op::Rename(path("A/x"), path("C")),
        Op::Fsync(path(".")),
    ]);
    let whole = tree_of(&program);
    let broken = |done, change: &dyn Fn(&mut Tree)| {
        let mut tree = whole.clone();
        change(&mut tree);
        program.broken_promise(done, &tree).unwrap_or_default()
    };
    assert_eq!(broken(5, &|_| ()), "");
    let gone = broken(3, &|tree| drop(tree.remove("B/y")));
    assert!(gone.starts_with("B/y is missing, a file made durable by operation 3 (sync B/y)"), "{gone}");
    let early = broken(2, &|tree| {
        tree.remove("B/y");
        let file = tree.remove("C").expect("a file");
        tree.insert(path("A/x"), file);
    });
    assert_eq!(early, "", "not yet durable");
    let short = broken(5, &|tree| drop(tree.insert(path("B/y"), Entry::File(vec![b'a'; 2999]))));
    assert!(short.contains("has 2999 bytes, not 3000"), "{short}");
    let zeros = broken(5, &|tree| drop(tree.insert(path("B/y"), Entry::File(vec![0; 3000]))));
    assert!(zeros.contains("has a zero at offset 0 of 3000, not a"), "{zeros}");
    let lost = broken(5, &|tree| drop(tree.remove("C")));
    assert!(lost.starts_with("A/x or C is missing, a file made durable before the program"), "{lost}");
    let back = broken(5, &|tree| drop(tree.insert(path("A/x"), Entry::File(Vec::new()))));
    assert_eq!(back, "", "A was not synced");
    // The rename may have taken place before the folder is synced. The file exists in any case.
    assert_eq!(broken(4, &|_| ()), "");
    let both = broken(4, &|tree| {
        tree.remove("C");
    });
    assert!(both.contains("A/x or C is missing"), "{both}");
    let old = broken(4, &|tree| {
        let file = tree.remove("C").expect("a file");
        tree.insert(path("A/x"), file);
    });
    assert_eq!(old, "");
}

#[test]
fn later_changes_excuse_what_they_touch_and_no_more() {
    let program = Program(vec![
        write("y", 0, 100, 'b'),
        Op::Fsync(path("y")),
        write("y", 4096, 100, 'c'),
        Op::Unlink(path("A/x")),
        Op::Fsync(path("A")),
        Op::Create(path("A/x")),
    ]);
    let whole = tree_of(&program);
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut tree = whole.clone();
        if let Some(Entry::File(data)) = tree.get_mut("y") {
            change(data);
        }
        program.broken_promise(4, &tree).unwrap_or_default()
    };
    // The write after the fsync may be missing, and its bytes may have any value.
    assert_eq!(with(&|data| data[4096..4196].fill(0)), "");
    assert!(with(&|data| data[4095] = 0).contains("a zero at offset 4095"));
    assert!(with(&|data| data[50] = b'q').contains("has q at offset 50"));
    assert!(with(&|data| data.truncate(5000)).contains("has 5000 bytes"));
    // A durably removed name is an error, unless the next operation creates it.
    let mut back = whole.clone();
    back.insert(path("A/x"), Entry::File(vec![b'p'; 6000]));
    assert_eq!(program.broken_promise(5, &back), None);
    let shorter = Program(program.0[..5].to_vec());
    let told = shorter.broken_promise(5, &back).expect("it is back");
    assert!(told.starts_with("A/x exists again"), "{told}");
}

/// ext4 and XFS write nothing for an fdatasync when only the name is new, nor for an fsync of an unchanged
/// file.
#[test]
fn a_sync_that_does_not_write_the_inode_promises_no_new_path() {
    let broken = |ops: &[Op], change: &dyn Fn(&mut Tree)| {
        let program = Program(ops.to_vec());
        let mut tree = tree_of(&program);
        change(&mut tree);
        program.broken_promise(ops.len(), &tree).unwrap_or_default()
    };
    let moved_back = |from: &'static str, to: &'static str| {
        move |tree: &mut Tree| {
            let file = tree.remove(to).expect("a file");
            tree.insert(path(from), file);
        }
    };
    let data = [Op::Rename(path("A/x"), path("B/x")), Op::Fdatasync(path("B/x"))];
    assert_eq!(broken(&data, &moved_back("A/x", "B/x")), "");
    let gone = broken(&data, &|tree| drop(tree.remove("B/x")));
    assert!(gone.contains("A/x") && gone.contains("is missing"), "{gone}");
    let whole = [Op::Rename(path("A/x"), path("B/x")), Op::Fsync(path("B/x"))];
    let lost = broken(&whole, &moved_back("A/x", "B/x"));
    assert!(lost.starts_with("B/x is missing, a file made durable by operation 2"), "{lost}");
    let folder = [Op::Rename(path("A"), path("C")), Op::Fsync(path("C/x"))];
    assert_eq!(broken(&folder, &moved_back("A/x", "C/x")), "");
    let written = [folder[0].clone(), write("C/x", 0, 100, 'b'), folder[1].clone()];
    let lost = broken(&written, &moved_back("A/x", "C/x"));
    assert!(lost.starts_with("C/x is missing, a file made durable by operation 3"), "{lost}");
    // A manual rename: a new link, then removal of the old one.
    let link = [Op::Link(path("y"), path("B/y")), Op::Unlink(path("y")), Op::Fdatasync(path("B/y"))];
    assert_eq!(broken(&link, &moved_back("y", "B/y")), "");
}

#[test]
fn the_script_prints_a_line_for_each_operation() {
    let program = Program(vec![Op::Link(path("y"), path("B/x")), Op::Fdatasync(path("y")), Op::Sync]);
    assert_eq!(program.script(), "set -e\nln y B/x; echo 1\nsync -d y; echo 2\nsync; echo 3\n");
    assert!(!Program(vec![Op::Link(path("y"), path("C/x"))]).is_possible(), "there is no C");
}
