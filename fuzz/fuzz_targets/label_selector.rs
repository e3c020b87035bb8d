//! See `sts_plus_fuzz::label_selector`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sts_plus_fuzz::label_selector(data));
