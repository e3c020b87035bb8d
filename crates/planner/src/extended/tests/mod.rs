//! Scenarios of system D on rows: the real decisions, and a StatefulSet controller that acts at once.

mod catalogue;
mod cluster;
mod creation;
mod drift;
mod handover;
mod hostile;
mod orphans;
mod promotion;
mod random;
mod random_scaled;
mod render;
mod rows;
mod scaled;
mod scaling;
mod versioned;
mod versions;
mod volumes;
mod zones;
