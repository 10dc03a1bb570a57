//! Guests of a virtio block device with arbitrary messages and memory.

#![cfg(target_os = "linux")]

mod script;

use strobe_serve::Session as _;
use strobe_serve::vhost::OUTPUT_BYTES_MAX;
use strobe_types::Prng;

use script::{Guest, follow};

const SCRIPTS: u64 = 3000;

#[test]
fn random_scripts_are_served_or_ended() {
    let mut answered = 0;
    for seed in 0..SCRIPTS {
        let mut chance = Prng::derive(seed, "vhost-user");
        let count = 1 + chance.below_u64(400) as usize;
        let mut script: Vec<u8> = (0..count).map(|_| chance.below_u64(256) as u8).collect();
        // Most scripts start with running rings.
        script[0] |= u8::from(seed % 8 > 0);
        answered += follow(&script);
    }
    assert!(answered > 1000, "{answered} requests reached the drive");
}

#[test]
fn unread_answers_are_bounded() {
    let mut guest = Guest::new(1);
    let config = [&[0, 0, 0, 0, 60, 0, 0, 0, 0, 0, 0, 0][..], &[0; 60]].concat();
    for _ in 0..10_000 {
        guest.say(24, &config, 0);
    }
    let bytes = guest.session.output_bytes();
    assert!((OUTPUT_BYTES_MAX..OUTPUT_BYTES_MAX + 512).contains(&bytes), "{bytes} bytes of output");
    guest.session.sent(bytes);
    guest.say(17, &[], 0);
    assert!(guest.session.output_bytes() > 0, "it is heard again");
}
