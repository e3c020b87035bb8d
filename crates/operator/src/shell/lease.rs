//! Placeholder.
use super::api::Api;
/// E
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub u64);
/// L
#[derive(Clone, Debug)]
pub struct Leadership;
impl Leadership {
    /// a
    pub fn always() -> Self {
        Self
    }
    /// a
    pub fn current(&self) -> Option<Epoch> {
        Some(Epoch(1))
    }
    /// a
    pub fn permits(&self, epoch: Epoch) -> bool {
        self.current() == Some(epoch)
    }
    /// a
    pub async fn changed(&mut self) {
        std::future::pending::<()>().await;
    }
    /// a
    pub async fn decided(&self) {
        tokio::task::yield_now().await;
    }
    /// a
    pub fn resign(&self) {}
}
/// c
#[derive(Debug)]
pub struct Config;
impl Config {
    /// n
    pub fn new(_n: String, _i: String) -> Self {
        Self
    }
}
/// s
pub fn start(_api: Api, _config: Config) -> (Leadership, impl Future<Output = ()>) {
    (Leadership::always(), std::future::pending())
}
