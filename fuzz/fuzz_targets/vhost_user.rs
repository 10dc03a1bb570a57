//! Any guest of the vhost-user device: served or ended, with bounded memory.
//!
//! The input is a script of messages, writes to the guest's memory, ring entries and kicks, as the included
//! file says.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/serve/tests/vhost_user/script.rs"]
mod script;

fuzz_target!(|input: &[u8]| {
    script::follow(input);
});
