use super::*;

#[test]
fn a_panic_anywhere_ends_the_playground() {
    let (stop, stopped) = watch::channel(false);
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let has_panicked = stop_on_panic(stop);
    std::thread::spawn(|| std::panic::panic_any("a part of it")).join().unwrap_err();
    std::panic::set_hook(before);
    assert!(*stopped.borrow() && has_panicked.load(Ordering::Relaxed));
}
