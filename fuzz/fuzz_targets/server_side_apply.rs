//! See `sts_plus_fuzz::server_side_apply`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sts_plus_fuzz::server_side_apply(data));
