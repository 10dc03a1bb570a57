//! In-flight requests of a server process that was killed.

use super::*;

impl Guest {
    fn with_inflight(engine: &Engine, rings: u16) -> Self {
        let mut guest = Self::boot(rings.into());
        // QEMU pads the structure.
        let counts = [rings.to_le_bytes(), SIZE.to_le_bytes(), [0; 2], [0; 2]].concat();
        guest.say(engine, 31, &[vec![0; 16], counts].concat(), Vec::new());
        let file = guest.session.file().expect("a file comes along").try_clone_to_owned();
        let mut slices = [std::io::IoSlice::new(&[])];
        guest.session.output(&mut slices);
        guest.inflight = Some((File::from(file.expect("another of it")), slices[0][12..].to_vec()));
        assert_eq!(guest.session.output_bytes(), 12 + 24);
        guest.session.sent(12 + 24);
        assert!(guest.session.file().is_none(), "it is sent once");
        guest.connect(engine);
        guest
    }

    fn heads(&self) -> Vec<u32> {
        let heads = (0..u64::from(self.used(0))).map(|at| self.get::<4>(USED + 4 + 8 * at));
        heads.map(u32::from_le_bytes).collect()
    }
}

/// Of three writes the second completes, its descriptors are reused, and the process ends. The next device
/// repeats the first and the third, then executes the new request.
#[test]
fn requests_in_flight_are_done_again_by_the_next_device() {
    let mut engine = super::engine();
    let mut guest = Guest::with_inflight(&engine, 1);
    for (place, sector) in (0..3).zip([0, 8, 16]) {
        guest.put(DATA + PLACE_BYTES * u64::from(place), &[1 + place as u8; 4096]);
        guest.ask_in(place, 0, OUT, sector, 4096);
    }
    assert_eq!(guest.session.take(7, &mut engine), Ok(3));
    let mut answers = Vec::new();
    engine.advance(&mut answers);
    answers.sort_by_key(|(tag, _)| *tag);
    let (tag, result) = answers.remove(1);
    guest.session.finish(tag as u32, result).expect("a good request");
    assert_eq!(guest.heads(), [3]);
    guest.put(DATA + PLACE_BYTES, &[9; 4096]);
    guest.ask_in(1, 0, OUT, 24, 4096);

    let mut engine = super::engine();
    guest.connect(&engine);
    assert_eq!(guest.work(&mut engine), Ok(3));
    assert_eq!(guest.heads(), [3, 0, 6, 3]);
    assert_eq!(guest.get::<3>(STATUS), [0; 3]);
    let mut told = [0; 8];
    guest.calls[0].read_exact(&mut told).expect("the guest is told");
    for (sector, byte) in [(0, 1), (8, 0), (16, 3), (24, 9)] {
        assert_eq!(guest.run(&mut engine, 0, IN, sector, 4096), 0);
        assert_eq!(guest.get::<4096>(DATA), [byte; 4096], "sector {sector}");
    }
    // All requests are complete, so the next device repeats none.
    let mut engine = super::engine();
    guest.connect(&engine);
    assert_eq!(guest.work(&mut engine), Ok(0));
    guest.calls[0].read_exact(&mut told).expect("it may have missed a call");
    assert_eq!(guest.run(&mut engine, 0, FLUSH, 0, 0), 0);
}

#[test]
fn the_write_cache_stays_off_for_the_next_device() {
    let engine = super::engine();
    let mut guest = Guest::with_inflight(&engine, 1);
    let cache = |guest: &mut Guest| {
        guest.session.sent(guest.session.output_bytes());
        let config = [&[0, 0, 0, 0, 60, 0, 0, 0, 0, 0, 0, 0][..], &[0; 60]].concat();
        guest.say(&engine, 24, &config, Vec::new());
        let mut slices = [std::io::IoSlice::new(&[])];
        guest.session.output(&mut slices);
        slices[0][24 + 32]
    };
    assert_eq!(cache(&mut guest), 1);
    guest.say(&engine, 25, &[32, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], Vec::new());
    assert_eq!(cache(&mut guest), 0);
    guest.connect(&engine);
    assert_eq!(cache(&mut guest), 0);
}

#[test]
fn wrong_memory_for_requests_in_flight_is_refused() {
    let engine = super::engine();
    let refused = |guest: &mut Guest, request: u32, payload: &[u8], files: Vec<OwnedFd>, text: &str| {
        let heard = guest.session.hear(message(request, payload, files), engine.drive());
        let error = heard.expect_err("refused");
        assert!(error.contains(text), "{error}");
    };
    let counts = |rings: u16, size: u16| [&[0; 16][..], &rings.to_le_bytes(), &size.to_le_bytes()].concat();
    for (rings, size) in [(0, 16), (65, 16), (1, 0), (1, 1025)] {
        refused(&mut Guest::boot(1), 31, &counts(rings, size), Vec::new(), "up to 64 rings");
    }
    let mut guest = Guest::with_inflight(&engine, 1);
    let (file, area) = guest.inflight.take().expect("it was asked for");
    refused(&mut guest, 32, &area, vec![clone(&file)], "running rings");
    refused(&mut Guest::boot(1), 32, &area, Vec::new(), "without its file");
    refused(&mut Guest::boot(1), 32, &counts(1, 16), vec![clone(&file)], "in 0 bytes");
    let other = tempfile::tempfile().expect("a file");
    other.set_len(1 << 20).expect("space");
    refused(&mut Guest::boot(1), 32, &area, vec![other.into()], "can shrink");
    // An earlier unsent answer must not carry the file.
    let mut guest = Guest::boot(1);
    guest.say(&engine, 17, &[], Vec::new());
    let asked = message(31, &counts(1, 16), Vec::new());
    let heard = guest.session.hear(asked, engine.drive()).expect("a good message");
    assert!(heard.is_some() && guest.session.file().is_none(), "it waits");
}
