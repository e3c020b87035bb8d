//! See `sts_plus_fuzz::built_in_schema`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sts_plus_fuzz::built_in_schema(data));
