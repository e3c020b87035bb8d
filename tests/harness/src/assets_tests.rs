use std::fs;

use super::*;

#[test]
fn a_folder_without_a_required_binary_says_which_and_who_named_it() {
    let folder = tempfile::tempdir().unwrap();
    for binary in ["etcd", "kube-apiserver"] {
        fs::write(folder.path().join(binary), "").unwrap();
    }
    let message = Assets::in_folder(folder.path(), ASSETS_VARIABLE).unwrap_err().to_string();
    assert!(message.contains("has no kube-controller-manager"), "{message}");
    assert!(message.contains("KUBEBUILDER_ASSETS"), "{message}");
}

#[test]
fn a_complete_folder_is_taken_and_its_optional_binaries_are_named_when_absent() {
    let folder = tempfile::tempdir().unwrap();
    for binary in REQUIRED {
        fs::write(folder.path().join(binary), "").unwrap();
    }
    let assets = Assets::in_folder(folder.path(), ASSETS_VARIABLE).unwrap();
    assert_eq!(assets.binary("etcd").unwrap(), folder.path().join("etcd"));
    assert!(assets.binary("helm").unwrap_err().to_string().contains("has no helm"));
}
