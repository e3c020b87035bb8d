use super::*;

#[test]
fn a_kubeconfig_in_a_folder_with_a_strange_name_is_quoted() {
    for (path, expected) in [
        ("/tmp/sts-plus-1/kubeconfig", "/tmp/sts-plus-1/kubeconfig"),
        ("/tmp/my data/kubeconfig", "'/tmp/my data/kubeconfig'"),
        ("/tmp/it's/kubeconfig", r"'/tmp/it'\''s/kubeconfig'"),
    ] {
        let guide = Guide::new(Path::new(path), Some(Demo::Extended));
        assert_eq!(guide.short()[0], format!("export KUBECONFIG={expected}"));
        assert!(guide.long().all(|command| command.starts_with(&format!("KUBECONFIG={expected} kubectl "))));
    }
}
