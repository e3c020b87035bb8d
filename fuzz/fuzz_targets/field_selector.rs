//! See `sts_plus_fuzz::field_selector`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sts_plus_fuzz::field_selector(data));
