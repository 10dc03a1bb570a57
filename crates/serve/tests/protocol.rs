//! The NBD protocol as bytes: the answers to a client, for any partition of its bytes.

use std::io::IoSlice;
use std::sync::Arc;

use proptest::prelude::*;
use strobe_serve::Session as _;
use strobe_serve::nbd::{ErrorCode, Export, Failed, OUTPUT_BYTES_MAX, Op, PAYLOAD_BYTES_MAX, Session};

const SECTORS: u64 = 2048;
const OPTION: u64 = 0x4948_4156_454f_5054;
const REQUEST: u32 = 0x2560_9513;

fn export() -> Arc<Export> {
    Arc::new(Export {
        name: "ssd".into(),
        description: "a drive".into(),
        sectors: SECTORS,
        block_bytes: 4096,
        read_only: false,
    })
}

fn option(number: u32, payload: &[u8]) -> Vec<u8> {
    let head = [&OPTION.to_be_bytes()[..], &number.to_be_bytes(), &(payload.len() as u32).to_be_bytes()];
    [&head.concat(), payload].concat()
}

fn request(flags: u16, command: u16, cookie: u64, offset: u64, bytes: u32) -> Vec<u8> {
    let mut out = REQUEST.to_be_bytes().to_vec();
    out.extend_from_slice(&flags.to_be_bytes());
    out.extend_from_slice(&command.to_be_bytes());
    out.extend_from_slice(&cookie.to_be_bytes());
    out.extend_from_slice(&offset.to_be_bytes());
    out.extend_from_slice(&bytes.to_be_bytes());
    out
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

fn go(number: u32, name: &str) -> Vec<u8> {
    option(number, &[text(name), vec![0, 0]].concat())
}

fn allocation() -> Vec<u8> {
    option(10, &[text("ssd"), 1_u32.to_be_bytes().to_vec(), text("base:allocation")].concat())
}

fn hello() -> Vec<u8> {
    [3_u32.to_be_bytes().to_vec(), option(8, &[]), allocation(), go(7, "")].concat()
}

struct Client {
    session: Session,
    disk: Vec<u8>,
    got: Vec<u8>,
    requests: Vec<Op>,
}

impl Client {
    fn new() -> Self {
        let disk = vec![0; SECTORS as usize * 512];
        Self { session: Session::new(export()), disk, got: Vec::new(), requests: Vec::new() }
    }

    fn ready() -> Self {
        let mut client = Self::new();
        client.say(&hello());
        assert!(client.session.is_ready());
        client.got.clear();
        client
    }

    fn say(&mut self, mut bytes: &[u8]) -> &[u8] {
        loop {
            self.serve();
            if bytes.is_empty() || self.session.is_full() {
                break;
            }
            let free_space = self.session.free_space();
            let count = free_space.len().min(bytes.len());
            free_space[..count].copy_from_slice(&bytes[..count]);
            self.session.received(count);
            bytes = &bytes[count..];
        }
        &self.got
    }

    fn serve(&mut self) {
        while let Some(request) = self.session.next_request() {
            let (slot, op) = (request.slot, request.op);
            let start = request.range.lba.get() as usize * 512;
            let end = start + request.range.bytes() as usize;
            self.requests.push(op);
            match op {
                Op::Write { .. } => {
                    self.disk[start..end].copy_from_slice(request.data);
                    self.session.answer(slot, Ok(Vec::new()));
                }
                Op::Read => {
                    let data = self.disk[start..end].to_vec();
                    self.session.answer(slot, Ok(data));
                }
                Op::Status { .. } => self.session.answer_status(slot, &[((end - start) as u32 / 512, false)]),
                Op::Trim { .. } | Op::WriteZeroes { .. } => {
                    self.disk[start..end].fill(0);
                    self.session.answer(slot, Ok(Vec::new()));
                }
                Op::Flush => {
                    let failed = Failed::new(ErrorCode::Io, "the drive is gone");
                    self.session.answer(slot, Err(failed));
                }
            }
            self.take();
        }
        self.take();
    }

    fn take(&mut self) {
        while self.session.output_bytes() > 0 {
            let mut parts = [IoSlice::new(&[]); 3];
            let count = self.session.output(&mut parts);
            let bytes: Vec<u8> = parts[..count].iter().flat_map(|part| part.iter().copied()).collect();
            // A socket accepts any number of bytes.
            let sent = bytes.len().div_ceil(2);
            self.got.extend_from_slice(&bytes[..sent]);
            self.session.sent(sent);
        }
    }

    fn error(&mut self, bytes: &[u8]) -> (u32, String) {
        self.got.clear();
        self.say(bytes);
        let got = &self.got;
        assert_eq!(got[..8], [0x66, 0x8e, 0x33, 0xef, 0, 1, 0x80, 1], "{got:?}");
        let code = u32::from_be_bytes(got[20..24].try_into().expect("four bytes"));
        (code, String::from_utf8_lossy(&got[26..]).into_owned())
    }
}

fn replies(mut bytes: &[u8]) -> Vec<u32> {
    let mut kinds = Vec::new();
    while bytes.len() >= 20 {
        assert_eq!(bytes[..8], 0x0003_e889_0455_65a9_u64.to_be_bytes());
        let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        kinds.push(word(12));
        bytes = &bytes[20 + word(16) as usize..];
    }
    kinds
}

const ACK: u32 = 1;
const INFO: u32 = 3;
const UNSUPPORTED: u32 = (1 << 31) | 1;
const INVALID: u32 = (1 << 31) | 3;
const UNKNOWN: u32 = (1 << 31) | 6;
const TOO_BIG: u32 = (1 << 31) | 9;

#[test]
fn options_are_answered_in_order() {
    let mut client = Client::new();
    client.say(&3_u32.to_be_bytes());
    assert_eq!(client.got.len(), 18, "the greeting");
    let mut ask = |bytes: &[u8]| {
        client.got.clear();
        replies(client.say(bytes))
    };
    assert_eq!(ask(&option(3, &[])), [2, ACK], "a list of one");
    assert_eq!(ask(&option(3, &[1])), [INVALID]);
    assert_eq!(ask(&option(5, &[])), [UNSUPPORTED], "no TLS");
    assert_eq!(ask(&allocation()), [INVALID], "structured replies come first");
    assert_eq!(ask(&option(8, &[])), [ACK]);
    assert_eq!(ask(&option(9, &[text("ssd"), vec![0; 4]].concat())), [4, ACK], "a list of all contexts");
    let query = |name: &str| [text("ssd"), 1_u32.to_be_bytes().to_vec(), text(name)].concat();
    assert_eq!(ask(&option(9, &query("base:"))), [4, ACK]);
    assert_eq!(ask(&option(10, &query("base:"))), [ACK], "no context has this name");
    assert_eq!(ask(&option(10, &[text("ssd"), u32::MAX.to_be_bytes().to_vec()].concat())), [INVALID]);
    assert_eq!(ask(&allocation()), [4, ACK]);
    assert_eq!(ask(&go(6, "other")), [UNKNOWN]);
    assert_eq!(ask(&option(6, &[0xff; 7])), [INVALID]);
    assert_eq!(ask(&option(99, &vec![0; 100_000])), [TOO_BIG]);
    assert_eq!(ask(&go(6, "ssd")), [INFO, INFO, ACK]);
    let all = [text("ssd"), [0_u16, 4, 0, 1, 2, 3].iter().skip(1).flat_map(|n| n.to_be_bytes()).collect()];
    assert_eq!(ask(&option(6, &all.concat())), [INFO, INFO, INFO, INFO, ACK]);
    assert!(!client.session.is_ready());
    assert_eq!(
        replies({
            client.got.clear();
            client.say(&go(7, ""))
        }),
        [INFO, INFO, ACK]
    );
    assert!(client.session.is_ready());
}

#[test]
fn the_oldest_way_to_choose_an_export_works() {
    for (flags, zeroes) in [(3_u32, 0), (1, 124)] {
        let mut client = Client::new();
        client.say(&flags.to_be_bytes());
        client.got.clear();
        let got = client.say(&option(1, b"ssd")).to_vec();
        assert_eq!(got.len(), 10 + zeroes);
        assert_eq!(got[..8], (SECTORS * 512).to_be_bytes());
        assert_eq!(u16::from_be_bytes([got[8], got[9]]) & (1 << 7), 0, "no DF with simple replies");
        // A simple reply to a read.
        client.got.clear();
        client.disk[512] = 9;
        let got = client.say(&request(0, 0, 7, 512, 512));
        assert_eq!(got[..16], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
        assert_eq!((got.len(), got[16]), (16 + 512, 9));
        client.got.clear();
        assert_eq!(client.say(&request(0, 0, 8, 1, 1))[4..8], 22_u32.to_be_bytes());
    }
    let mut client = Client::new();
    client.say(&[3_u32.to_be_bytes().to_vec(), option(1, b"other")].concat());
    assert!(client.session.is_over(), "another name can only be refused by closing");
}

#[test]
fn commands_reach_the_drive_and_are_answered() {
    let mut client = Client::ready();
    let write = [request(1, 1, 1, 4096, 1024), vec![5; 1024]].concat();
    let done = |cookie: u8| [0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, cookie, 0, 0, 0, 0];
    assert_eq!(client.say(&write), done(1));
    assert_eq!(client.disk[4096..5120], [5; 1024]);
    client.got.clear();
    let got = client.say(&request(4, 0, 2, 4608, 1024));
    assert_eq!(got[4..8], [0, 1, 0, 1], "one chunk of data, the last");
    assert_eq!(got[16..20], 1032_u32.to_be_bytes());
    assert_eq!(got[20..28], 4608_u64.to_be_bytes());
    assert_eq!((&got[28..540], &got[540..]), (&[5; 512][..], &[0; 512][..]));
    client.got.clear();
    let got = client.say(&request(8, 7, 3, 0, 8192));
    assert_eq!(got[6..8], [0, 5]);
    assert_eq!(got[16..], [12_u32, 1, 8192, 3].iter().flat_map(|n| n.to_be_bytes()).collect::<Vec<_>>());
    client.got.clear();
    client.say(&[request(1, 4, 4, 0, 4096), request(2, 6, 5, 0, 4096), request(16, 6, 6, 0, 4096)].concat());
    let zeroes = |fua, deallocate| Op::WriteZeroes { fua, deallocate };
    let expected = [
        Op::Write { fua: true },
        Op::Read,
        Op::Status { one: true },
        Op::Trim { fua: true },
        zeroes(false, false),
        zeroes(false, true),
    ];
    assert_eq!(client.requests, expected);
    assert_eq!(client.error(&request(0, 3, 7, 0, 0)), (5, "the drive is gone".into()));
    client.say(&request(0, 2, 0, 0, 0));
    assert!(client.session.is_over());
}

#[test]
fn wrong_requests_are_refused_with_the_protocols_codes() {
    let mut client = Client::ready();
    let size = SECTORS * 512;
    for (bytes, code, says) in [
        (request(0, 0, 1, 0, 0), 22, "multiples of 512"),
        (request(0, 0, 1, 511, 512), 22, "multiples of 512"),
        (request(0, 0, 1, size, 512), 22, "exceed the export of"),
        (request(0, 0, 1, u64::MAX - 511, 512), 22, "exceed the export of"),
        (request(0, 0, 1, 0, PAYLOAD_BYTES_MAX + 512), 22, "at most 33554432"),
        (request(0, 4, 1, 0, u32::MAX - 511), 22, "exceed the export of"),
        (request(0, 6, 1, size, 512), 28, "exceed the export of"),
        (request(16 | 2, 6, 1, 0, 512), 95, "programmed"),
        (request(2, 0, 1, 0, 512), 22, "flags 0x2"),
        (request(0, 5, 1, 0, 512), 22, "command 5 is unknown"),
        (request(0, 999, 1, 0, 0), 22, "command 999"),
    ] {
        let (got, text) = client.error(&bytes);
        assert_eq!(got, code, "{text}");
        assert!(text.contains(says), "{text}");
    }
    // The data of a refused write is skipped, even above the maximum length.
    for (offset, bytes, code) in [(1, 4096, 22), (size, 512, 28), (0, PAYLOAD_BYTES_MAX + 512, 22)] {
        let (got, _) = client.error(&[request(0, 1, 1, offset, bytes), vec![0x25; bytes as usize]].concat());
        assert_eq!(got, code);
    }
    assert_eq!(client.requests, [], "nothing has reached the drive");
    client.got.clear();
    assert_eq!(client.say(&request(0, 0, 9, 0, 512)).len(), 28 + 512, "and the connection goes on");
    client.say(&[0; 28]);
    assert!(client.session.is_over(), "where the next message begins is not known");
}

#[test]
fn a_read_only_export_refuses_changes() {
    let mut client = Client::ready();
    client.session = Session::new(Arc::new(Export { read_only: true, ..(*export()).clone() }));
    client.say(&hello());
    for command in [1, 4, 6] {
        let data = if command == 1 { vec![0; 512] } else { Vec::new() };
        assert_eq!(client.error(&[request(0, command, 1, 0, 512), data].concat()).0, 1);
    }
    client.got.clear();
    assert_eq!(client.say(&request(0, 0, 9, 0, 512)).len(), 28 + 512);
}

#[test]
fn lengths_that_are_only_announced_take_no_memory() {
    let mut client = Client::ready();
    client.say(&request(0, 1, 1, 0, PAYLOAD_BYTES_MAX.min(SECTORS as u32 * 512)));
    assert!(client.session.free_space().len() <= 256 << 10, "{}", client.session.free_space().len());
    let mut session = Session::new(export());
    let absurd = [&3_u32.to_be_bytes()[..], &OPTION.to_be_bytes(), &[0, 0, 0, 9], &[0xff; 4]].concat();
    session.free_space()[..absurd.len()].copy_from_slice(&absurd);
    session.received(absurd.len());
    assert_eq!(session.next_request(), None);
    assert!(session.is_full(), "closed");
}

#[test]
fn a_client_that_takes_no_answers_gets_no_more() {
    let mut client = Client::ready();
    let largest = SECTORS as u32 * 512;
    let mut taken = 0_usize;
    for cookie in 0..1000 {
        let bytes = request(0, 0, cookie, 0, largest);
        client.session.free_space()[..bytes.len()].copy_from_slice(&bytes);
        client.session.received(bytes.len());
        taken += usize::from(client.session.next_request().is_some());
        if client.session.is_full() {
            break;
        }
    }
    assert_eq!(taken, OUTPUT_BYTES_MAX / largest as usize + 1);
    for slot in 0..taken as u32 {
        client.session.answer(slot, Ok(vec![1; largest as usize]));
    }
    assert!(client.session.is_full(), "until they are sent");
    client.take();
    assert!(!client.session.is_full());
}

#[test]
fn data_of_writes_under_way_is_bounded() {
    let mut client = Client::ready();
    let largest = SECTORS as u32 * 512;
    let write = [request(0, 1, 1, 0, largest), vec![1; largest as usize]].concat();
    let mut rest = write.iter().cycle().copied();
    let mut taken = 0;
    while !client.session.is_full() && taken < 1000 {
        let count = client.session.free_space().len();
        client.session.free_space().iter_mut().zip(&mut rest).for_each(|(to, from)| *to = from);
        client.session.received(count);
        taken += usize::from(client.session.next_request().is_some());
    }
    assert_eq!(taken, OUTPUT_BYTES_MAX / largest as usize + 1);
    client.session.answer(0, Ok(Vec::new()));
    client.take();
    assert!(!client.session.is_full());
}

#[test]
fn options_wait_for_encryption() {
    const START_TLS: u32 = 5;
    const TLS_REQUIRED: u32 = 1 << 31 | 5;
    let flags = 3_u32.to_be_bytes();
    let option = |number: u32, payload: &[u8]| {
        [&b"IHAVEOPT"[..], &number.to_be_bytes(), &(payload.len() as u32).to_be_bytes(), payload].concat()
    };
    let client = || {
        let mut client = Client { session: Session::to_be_encrypted(export()), ..Client::new() };
        client.say(&flags);
        client.got.clear();
        client
    };
    let reply = |client: &Client| u32::from_be_bytes(client.got[12..16].try_into().expect("four bytes"));
    for (number, payload) in [(3, &[][..]), (7, &[0; 6]), (8, &[])] {
        let mut client = client();
        client.say(&option(number, payload));
        assert_eq!(reply(&client), TLS_REQUIRED, "option {number}");
        assert!(!client.session.is_ready());
    }
    let mut by_name = client();
    by_name.say(&option(1, b""));
    assert!(by_name.session.is_over(), "another answer than the end is not possible");
    let mut client_of_tls = client();
    client_of_tls.say(&option(START_TLS, &[]));
    assert_eq!(reply(&client_of_tls), 1, "granted");
    assert!(client_of_tls.session.wants_encryption() && client_of_tls.session.is_full());
    client_of_tls.session.set_encrypted();
    client_of_tls.got.clear();
    client_of_tls.say(&option(START_TLS, &[]));
    assert_eq!(reply(&client_of_tls), 1 << 31 | 3, "not twice");
    client_of_tls.say(&option(7, &[0; 6]));
    assert!(client_of_tls.session.is_ready());
    // Bytes injected after the request.
    let mut client = client();
    client.say(&[option(START_TLS, &[]), option(8, &[])].concat());
    assert!(!client.session.wants_encryption() && client.session.is_over());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn bytes_may_come_in_any_pieces(cuts in proptest::collection::vec(1_usize..40, 1..60)) {
        let script = [
            hello(),
            request(0, 1, 1, 4096, 1024), vec![7; 1024],
            request(0, 1, 2, 1, 600), vec![0x25; 600],
            request(0, 0, 3, 4096, 2048),
            request(0, 7, 4, 0, 8192),
            request(0, 3, 5, 0, 0),
            request(0, 2, 6, 0, 0),
        ].concat();
        let mut whole = Client::new();
        whole.say(&script);
        prop_assert!(whole.session.is_over());
        let mut pieces = Client::new();
        let (mut rest, mut cuts) = (&script[..], cuts.into_iter().cycle());
        while !rest.is_empty() {
            let (piece, more) = rest.split_at(cuts.next().unwrap_or(1).min(rest.len()));
            pieces.say(piece);
            rest = more;
        }
        prop_assert_eq!(pieces.got, whole.got);
        prop_assert_eq!(pieces.disk, whole.disk);
    }

    #[test]
    fn no_bytes_break_a_session(
        good in 0_usize..3,
        parts in proptest::collection::vec(
            (0_u16..12, any::<u16>(), 0_u64..SECTORS * 600, 0_u32..20_000, proptest::collection::vec(any::<u8>(), 0..50)),
            0..20,
        ),
    ) {
        let mut client = Client::new();
        if good > 0 {
            client.say(&hello());
        }
        for (command, flags, offset, bytes, noise) in parts {
            let (offset, bytes) = if good == 2 { (offset & !511, bytes & !511) } else { (offset, bytes) };
            client.say(&request(flags & 0x1f, command, 1, offset, bytes));
            if good < 2 {
                client.say(&noise);
            }
            prop_assert!(client.session.output_bytes() == 0);
            prop_assert!(client.session.in_flight() == 0);
        }
    }
}
