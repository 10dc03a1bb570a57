//! Requests of a host, each of one or several commands, against the drive alone.

use strobe_ssd::{Answer, Command, CommandError, DataMode, Range, Target, build};
use strobe_types::{Lba, SimTime};

use crate::setup::{T0, UNIT, config};

fn unit(number: u64) -> Range {
    Range::new(Lba::new(number * u64::from(UNIT)), UNIT)
}

fn copy<'a>(to: u64, sources: &'a [Range]) -> Command<'a> {
    Command::Copy { destination: unit(to).lba, sources }
}

fn target() -> Target {
    let mut config = config();
    config.nand.data = DataMode::Bytes;
    Target::new(build(&config, true, 1).expect("a drive"))
}

fn answers(target: &mut Target) -> Vec<Answer> {
    let mut answers = Vec::new();
    while let Some(next) = target.next_event() {
        let before = answers.len();
        target.advance(next, &mut answers);
        assert!(answers[before..].iter().all(|answer| answer.at == next));
    }
    answers
}

#[test]
fn a_request_of_several_commands_is_answered_once_when_the_last_is_complete() {
    let mut target = target();
    target.submit(T0, 7, &[Command::write(unit(0))], Some(&[5; 4096]));
    let written = answers(&mut target).remove(0).at;
    // The same commands, one by one, on a copy of the drive.
    let mut alone = target.drive().freeze();
    let (first, second) = ([unit(0)], [unit(0), unit(1)]);
    let commands = [copy(20, &first), copy(30, &second)];
    let expected = commands.iter().map(|command| alone.execute(written, command).expect("runs")).max();
    target.submit(written, 8, &commands, None);
    let copied = answers(&mut target);
    assert_eq!(copied, [Answer { tag: 8, at: expected.expect("two"), result: Ok(Vec::new()) }]);
    let requests = target.requests();
    assert_eq!((requests.write, requests.copy, requests.copy_ranges, requests.failed), (1, 1, 3, 0));
}

#[test]
fn one_command_that_fails_fails_the_request_and_the_first_error_is_kept() {
    let mut target = target();
    let beyond = [unit(160)];
    target.submit(T0, 1, &[copy(20, &[unit(0)]), copy(30, &beyond)], None);
    target.answer(T0, 2, Err(CommandError::Unsupported));
    target.answer(T0, 3, Ok(b"name".to_vec()));
    target.submit(T0, 4, &[Command::Read { range: unit(161) }], None);
    let answers = answers(&mut target);
    let tags: Vec<u64> = answers.iter().map(|answer| answer.tag).collect();
    assert_eq!(tags, [1, 2, 3, 4], "at the same time, in the order of submission");
    assert!(matches!(answers[0].result, Err(CommandError::OutOfRange { lba: 1280, .. })));
    assert_eq!(answers[2].result, Ok(b"name".to_vec()));
    assert!(target.first_error().is_some_and(|error| error.contains("1280")), "{:?}", target.first_error());
    let requests = target.requests();
    assert_eq!((requests.copy, requests.other, requests.read, requests.failed), (1, 2, 1, 3));
    assert_eq!((requests.total(), requests.since(&requests).total()), (4, 0));
}

#[test]
fn answers_come_in_the_order_of_time_not_of_submission() {
    let mut target = target();
    target.submit(T0, 1, &[Command::write(unit(0))], Some(&[1; 4096]));
    target.submit(T0, 2, &[Command::Read { range: unit(9) }], None);
    let answers = answers(&mut target);
    assert_eq!((answers[0].tag, answers[0].at), (2, T0), "nothing is there");
    assert_eq!(answers[0].result, Ok(vec![0; 4096]));
    assert!(answers[1].tag == 1 && answers[1].at > SimTime::ZERO);
}
