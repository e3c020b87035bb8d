use std::{collections::BTreeMap, io::Read};

use serde_json::Value;
use tar::Archive;

use super::*;

/// Path, kind and mode, contents or target of each entry.
fn entries(archive: &[u8]) -> BTreeMap<String, (EntryType, u32, Vec<u8>)> {
    let mut archive = Archive::new(archive);
    let read = |entry: io::Result<tar::Entry<'_, &[u8]>>| {
        let mut entry = entry.unwrap();
        let (kind, mode) = (entry.header().entry_type(), entry.header().mode().unwrap());
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        if let Some(target) = entry.link_name_bytes() {
            content = target.into_owned();
        }
        (entry.path().unwrap().display().to_string(), (kind, mode, content))
    };
    archive.entries().unwrap().map(read).collect()
}

fn json(entry: &(EntryType, u32, Vec<u8>)) -> Value {
    serde_json::from_slice(&entry.2).unwrap()
}

#[test]
fn the_archive_names_its_parts_and_the_layer_by_its_digest() {
    let image = Image::new("localhost/app:v1", &["/app"], &["run"]).user("65532:65532").file("/a/b", "text");
    let mut archive = Vec::new();
    image.write(&mut archive).unwrap();
    let parts = entries(&archive);

    let manifest = json(&parts["manifest.json"]);
    assert_eq!(manifest[0]["RepoTags"], json!(["localhost/app:v1"]));
    let config = json(&parts[manifest[0]["Config"].as_str().unwrap()]);
    assert_eq!(config["config"], json!({"Entrypoint": ["/app"], "Cmd": ["run"], "User": "65532:65532"}));
    let layer = &parts[manifest[0]["Layers"][0].as_str().unwrap()].2;
    assert_eq!(config["rootfs"]["diff_ids"], json!([format!("sha256:{}", sha256(layer))]));
    let mut archive = Vec::new();
    image.stop_signal("SIGKILL").write(&mut archive).unwrap();
    assert_eq!(json(&entries(&archive)["config.json"])["config"]["StopSignal"], "SIGKILL");
    assert_eq!(entries(layer), [("a/b".into(), (EntryType::Regular, 0o644, b"text".to_vec()))].into());
}

#[test]
fn programs_may_be_run_and_links_point_to_one() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    fs::write(&program, "#!").unwrap();
    let image = Image::new("x", &[], &[])
        .program("/bin/program", &program)
        .unwrap()
        .with("/bin/other", Content::Link("/bin/program".into()));
    let files = entries(&image.layer().unwrap());
    assert_eq!(files["bin/program"], (EntryType::Regular, 0o755, b"#!".to_vec()));
    assert_eq!(files["bin/other"], (EntryType::Symlink, 0o777, b"/bin/program".to_vec()));
}

#[test]
fn shared_libraries_and_their_loader_come_along() {
    let linked = "\tlinux-vdso.so.1 (0x00007ffd)\n\
                  \tlibgcc_s.so.1 => /lib/x86_64-linux-gnu/libgcc_s.so.1 (0x00007f5a)\n\
                  \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f59)\n\
                  \t/lib64/ld-linux-x86-64.so.2 (0x00007f5b)\n";
    let expected = [
        "/lib/x86_64-linux-gnu/libgcc_s.so.1",
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/lib64/ld-linux-x86-64.so.2",
    ];
    assert_eq!(libraries(linked), expected);
    for nothing in ["", "\tstatically linked\n", "/bin/true: not a dynamic executable\n"] {
        assert_eq!(libraries(nothing), [""; 0]);
    }
}

#[test]
fn the_digest_is_the_well_known_one() {
    assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
