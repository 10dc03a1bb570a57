//! Any guest of the vhost-user device: served or disconnected, with bounded memory.
//!
//! The input is a script of messages, guest memory writes, ring entries and kicks, as described in the
//! included file.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/serve/tests/vhost_user/script.rs"]
mod script;

fuzz_target!(|input: &[u8]| {
    script::follow(input);
});
