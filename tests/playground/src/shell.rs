//! Programs, run as people run them.
