use strobe_nand::NandOp;
use strobe_nvme::{PAGE_BYTES, Status};
use strobe_types::SimTime;

use super::{DATA, Host, config};
use crate::attached::Attached;

const UNIT_SECTORS: u64 = 32 * 8;

pub(super) fn host() -> Host {
    host_of(serde_json::json!({ "scheme": "handles", "handles": 3, "isolation": "persistent" }), 1)
}

fn host_of(placement: serde_json::Value, dies: u32) -> Host {
    let mut config = config();
    config.nand.dies_per_channel = dies;
    if dies > 1 {
        config.ftl.gc.mode = strobe_ssd::GcMode::StopTheWorld;
    }
    config.ftl.placement = serde_json::from_value(placement).expect("a placement");
    Host::of(Attached::new(strobe_ssd::build(&config, true, 1).expect("a drive"), SimTime::ZERO))
}

impl Host {
    fn log(&mut self, identifier: u32, of_host: bool, bytes: usize) -> Vec<u8> {
        let dword = (bytes as u32 / 4 - 1) << 16 | u32::from(of_host) << 8 | identifier;
        assert_eq!(self.ask(0, 0x02, 0, DATA, [dword, 1 << 16, 0]), (0, 0), "log {identifier:#x}");
        self.data(bytes)
    }

    fn write_placed(&mut self, sector: u32, identifier: u32) -> u16 {
        self.ask(1, 0x01, 1, DATA, [sector, 0, 2 << 20 | 7, identifier << 16]).1
    }

    fn status(&mut self) -> Vec<(u16, u16, u64)> {
        assert_eq!(self.ask(1, 0x12, 1, DATA, [1, (16 + 3 * 32) / 4 - 1, 0]), (0, 0));
        let data = self.data(16 + 3 * 32);
        assert_eq!((&data[..14], data[14], data[15]), (&[0; 14][..], 3, 0));
        let short = |at: usize| u16::from_le_bytes([data[at], data[at + 1]]);
        let long = |at: usize| u64::from_le_bytes(data[at..at + 8].try_into().expect("eight bytes"));
        (0..3).map(|at| 16 + 32 * at).map(|at| (short(at), short(at + 2), long(at + 8))).collect()
    }

    fn left(&mut self) -> Vec<u64> {
        self.status().into_iter().map(|(.., left)| left).collect()
    }
}

#[test]
fn a_drive_with_handles_says_so_and_how_many() {
    let mut host = host();
    host.ask(0, 0x06, 0, DATA, [1, 0, 0]);
    let page = host.data(PAGE_BYTES);
    assert_eq!((&page[96..100], &page[340..342], page[256]), (&[0x10, 0, 8, 0][..], &[1, 0][..], 0x20));
    host.ask(0, 0x06, 1, DATA, [0, 0, 0]);
    assert_eq!(host.data(104)[102..], [1, 0], "the endurance group of the namespace");
    host.ask(0, 0x06, 0, DATA, [0x19, 0, 0]);
    assert_eq!(host.data(6), [1, 0, 1, 0, 0, 0], "endurance groups");
    assert_eq!(host.ask(0, 0x1a, 1, DATA, [1023, 1, 0]), (0, 0));
    let page = host.data(96);
    assert_eq!((page[0], page[32], page[64]), (0b101, 0b101, 0b100));

    let page = host.log(0x20, false, 96);
    assert_eq!(page[..8], [0, 0, 0, 0, 96, 0, 0, 0], "one configuration, counted from 0");
    // Size; valid, with a write cache; one reclaim group, three handles and identifiers, one namespace.
    assert_eq!(page[16..32], [80, 0, 0x90, 0, 1, 0, 0, 0, 3, 0, 2, 0, 1, 0, 0, 0]);
    assert_eq!(page[32..40], (UNIT_SECTORS * 512).to_le_bytes());
    assert_eq!(page[80..92], [2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0], "persistently isolated");
    let page = host.log(0x21, false, 32);
    assert_eq!(
        page,
        [3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    );
    let page = host.log(0x09, false, 512);
    assert_eq!((page[3], page[4]), (100, 10), "all of its spare");
    // The feature cannot be changed while a namespace exists.
    assert_eq!(host.ask(0, 0x0a, 0, 0, [0x1d, 1, 0]), (1, 0));
    assert_eq!(host.ask(0, 0x09, 0, 0, [0x1d, 1, 0]).1, Status::SEQUENCE_ERROR.0);
    assert_eq!(host.ask(0, 0x02, 0, DATA, [0x20, 2 << 16, 0]).1, Status::INVALID_FIELD.0, "no such group");
}

#[test]
fn writes_go_to_the_unit_of_their_handle_until_it_is_updated() {
    let mut host = host();
    assert_eq!(host.status(), [(0, 0, UNIT_SECTORS), (1, 1, UNIT_SECTORS), (2, 2, UNIT_SECTORS)]);
    host.put(&[5; PAGE_BYTES]);
    for sector in [0, 8, 16] {
        assert_eq!(host.write_placed(sector, 1), 0);
    }
    host.ask(1, 0x01, 1, DATA, [24, 0, 7]);
    assert_eq!(host.left(), [UNIT_SECTORS - 8, UNIT_SECTORS - 24, UNIT_SECTORS], "also what is buffered");
    host.put(&[0, 3]);
    assert_eq!(host.ask(0, 0x09, 1, DATA, [0x1e, 1 << 16 | 1, 1]), (0, 0));
    host.put(&[1, 0]);
    assert_eq!(host.ask(1, 0x1d, 1, DATA, [1, 0, 0]), (0, 0));
    assert_eq!(host.left(), [UNIT_SECTORS - 8, UNIT_SECTORS, UNIT_SECTORS]);
    let page = host.log(0x23, true, 128);
    assert_eq!(page[..4], [1, 0, 0, 0]);
    assert_eq!(page[64..68], [0x00, 0b111, 1, 0], "a unit that was not full, of handle 1");
    assert_eq!(page[76..80], [1, 0, 0, 0], "its namespace");
    assert_eq!((&page[80..98], &page[98..100]), (&[0; 18][..], &[1, 0][..]));
    assert_eq!(host.log(0x23, false, 64), [0; 64], "no events of the controller");
    // An empty unit stays and causes no event.
    host.put(&[1, 0]);
    assert_eq!(host.ask(1, 0x1d, 1, DATA, [1, 0, 0]), (0, 0));
    assert_eq!(host.log(0x23, true, 64)[0], 1);
    let stats = host.drive.target.drive().stats();
    let programmed = stats.nand.total(NandOp::Program) * 4096;
    assert_eq!(programmed, (32 + 1) * 4096);
    let page = host.log(0x22, false, 64);
    assert_eq!(
        (&page[..8], &page[16..24]),
        (&(4 * 4096_u64).to_le_bytes()[..], &programmed.to_le_bytes()[..])
    );
    assert_eq!(page[32..40], [0; 8], "nothing has been erased");
    host.ask(1, 0x02, 1, DATA, [8, 0, 7]);
    assert!(host.data(PAGE_BYTES) == [5; PAGE_BYTES], "the data is there");
}

#[test]
fn an_identifier_names_a_reclaim_group_and_a_handle() {
    let mut host = host_of(serde_json::json!({ "scheme": "handles", "handles": 2, "groups": 3 }), 3);
    let page = host.log(0x20, false, 96);
    assert_eq!(page[16..32], [72, 0, 0x92, 0, 3, 0, 0, 0, 2, 0, 5, 0, 1, 0, 0, 0]);
    assert_eq!(page[32..40], (UNIT_SECTORS * 512).to_le_bytes(), "a block of a die");
    assert_eq!(page[80..88], [1, 0, 0, 0, 1, 0, 0, 0], "initially isolated");
    assert_eq!(host.log(0x21, false, 8)[0], 2, "handles");
    let status = |host: &mut Host| {
        assert_eq!(host.ask(1, 0x12, 1, DATA, [1, (16 + 6 * 32) / 4 - 1, 0]), (0, 0));
        let data = host.data(16 + 6 * 32);
        assert_eq!(data[14], 6);
        let short = |at: usize| u16::from_le_bytes([data[at], data[at + 1]]);
        (0..6).map(|at| 16 + 32 * at).map(|at| (short(at), short(at + 2), short(at + 8))).collect::<Vec<_>>()
    };
    let full = UNIT_SECTORS as u16;
    let units = |left: [u16; 6]| {
        let ids = [(0, 0), (1, 1), (0x4000, 0), (0x4001, 1), (0x8000, 0), (0x8001, 1)];
        ids.into_iter().zip(left).map(|((id, handle), left)| (id, handle, left)).collect::<Vec<_>>()
    };
    assert_eq!(status(&mut host), units([full; 6]));
    for (sector, identifier) in [(0, 0x4001), (8, 0x4001), (16, 0x8000), (24, 1)] {
        assert_eq!(host.write_placed(sector, identifier), 0);
    }
    assert_eq!(status(&mut host), units([full, full - 8, full, full - 16, full - 8, full]));
    host.put(&[3, 0]);
    assert_eq!(host.ask(0, 0x09, 1, DATA, [0x1e, 2 << 16, 1]), (0, 0));
    for identifier in [0xc000, 0x4002] {
        assert_eq!(host.write_placed(32, identifier), 0);
    }
    assert_eq!(host.log(0x23, true, 64)[0], 2, "events");
    host.put(&[0]);
    assert_eq!(host.ask(0, 0x09, 1, DATA, [0x1e, 1 << 16 | 1, 1]), (0, 0));
    host.put(&0x4001_u16.to_le_bytes());
    assert_eq!(host.ask(1, 0x1d, 1, DATA, [1, 0, 0]), (0, 0));
    assert_eq!(status(&mut host)[3], (0x4001, 1, full));
    let page = host.log(0x23, true, 4 * 64);
    assert_eq!((page[192], &page[194..196], &page[224..228]), (0, &[0x01, 0x40][..], &[1, 0, 1, 0][..]));
    host.put(&0xc000_u16.to_le_bytes());
    assert_eq!(host.ask(1, 0x1d, 1, DATA, [1, 0, 0]).1, Status::INVALID_HANDLE_LIST.0);
    // Programs are counted by the chip.
    let stats = host.drive.target.drive().stats();
    let programmed = stats.nand.total(NandOp::Program) * 4096;
    assert_eq!(host.log(0x22, false, 64)[16..24], programmed.to_le_bytes());
}

#[test]
fn an_identifier_that_nobody_has_is_an_event_and_no_error() {
    let mut host = host();
    assert_eq!(host.write_placed(0, 3), 0);
    assert_eq!(host.log(0x23, true, 64)[0], 0, "nobody wants to know");
    host.put(&[3]);
    assert_eq!(host.ask(0, 0x09, 1, DATA, [0x1e, 1 << 16, 1]), (0, 0));
    // Two event types, of which handle 0 reports the second.
    assert_eq!(host.ask(0, 0x0a, 1, DATA, [0x1e, 255 << 16, 0]), (2, 0));
    assert_eq!(host.data(4), [0, 0, 3, 1]);
    for identifier in 3..200 {
        assert_eq!(host.write_placed(8, identifier), 0);
    }
    assert_eq!(host.left()[1..], [UNIT_SECTORS; 2], "all by handle 0");
    let page = host.log(0x23, true, 64 * 64);
    assert_eq!((page[0], &page[64..68]), (63, &[3, 0b011, 137, 0][..]), "the newest 63");
    // A reset keeps the log. The host disables the event.
    host.register(0x14, 0x0046_0000);
    host.start();
    host.put(&[3]);
    assert_eq!(host.ask(0, 0x09, 1, DATA, [0x1e, 1 << 16, 0]), (0, 0));
    assert_eq!(host.write_placed(0, 0xffff), 0);
    assert_eq!(host.log(0x23, true, 64 * 64), page);
}

#[test]
fn wrong_lists_and_drives_without_handles_are_refused() {
    let mut host = host();
    host.put(&[0, 0, 3, 0]);
    assert_eq!(host.ask(1, 0x1d, 1, DATA, [1 << 16 | 1, 0, 0]).1, Status::INVALID_HANDLE_LIST.0);
    host.put(&[0; 8]);
    assert_eq!(host.ask(1, 0x1d, 1, DATA, [3 << 16 | 1, 0, 0]).1, Status::INVALID_HANDLE_LIST.0, "too many");
    assert_eq!(host.ask(1, 0x1d, 1, DATA, [0, 0, 0]), (0, 0), "nothing to do");
    assert_eq!(host.ask(1, 0x12, 1, DATA, [2, 0, 0]).1, Status::INVALID_FIELD.0);
    assert_eq!(host.ask(1, 0x12, 1, DATA, [1, u32::MAX, 0]).1, Status::INVALID_FIELD.0);
    assert_eq!(host.ask(1, 0x12, 2, DATA, [1, 0, 0]).1, Status::INVALID_NAMESPACE.0);
    assert_eq!(host.ask(1, 0x01, 1, DATA, [0, 0, 1 << 20 | 7, 0]).1, Status::INVALID_FIELD.0, "streams");
    host.put(&[1]);
    assert_eq!(host.ask(0, 0x09, 1, DATA, [0x1e, 1 << 16, 1]).1, Status::INVALID_FIELD.0, "no such event");
    assert_eq!(
        host.ask(0, 0x0a, 1, DATA, [0x1e, 255 << 16 | 3, 0]).1,
        Status::INVALID_FIELD.0,
        "no such handle"
    );

    let mut plain = Host::new();
    plain.ask(0, 0x06, 0, DATA, [1, 0, 0]);
    assert_eq!(plain.data(100)[96..], [0; 4]);
    for opcode in [0x12, 0x1d] {
        assert_eq!(plain.ask(1, opcode, 1, DATA, [1, 0, 0]).1, Status::FDP_DISABLED.0);
    }
    for identifier in 0x20..0x24 {
        assert_eq!(plain.ask(0, 0x02, 0, DATA, [identifier, 1 << 16, 0]).1, Status::FDP_DISABLED.0);
    }
    assert_eq!(plain.ask(0, 0x02, 0, DATA, [0x09, 1 << 16, 0]).1, Status::INVALID_LOG.0);
    assert_eq!(plain.ask(0, 0x0a, 0, 0, [0x1d, 1, 0]).1, Status::INVALID_FIELD.0);
    assert_eq!(plain.write_placed(0, 0), Status::INVALID_FIELD.0, "the directive is not enabled");
}
