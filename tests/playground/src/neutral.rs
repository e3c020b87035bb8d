//! What programs print, without what differs from one run to the next.
