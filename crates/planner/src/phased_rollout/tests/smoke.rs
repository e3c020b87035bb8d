use super::cluster::{NEW, given, rolling};

#[test]
fn smoke() {
    let mut c = given().managed();
    println!("{c}");
    assert_eq!(c.partition(), 3);
    c.edit(NEW);
    c.quiet();
    c.finish();
    println!("{c}");
    assert_eq!(c.partitions(), ["3", "2", "1", "0", "3"]);
    let _ = rolling();
}
