//! Documentation that holds together: links and paths lead somewhere, pages can be found.

use std::path::{Component, Path, PathBuf};

use crate::{assert_none, root, texts};

/// Where a reader starts; every page under `docs/` is linked from one of them.
const INDEXES: [&str; 2] = ["README.md", "docs/README.md"];

/// Where builds write. Pages name files there, and a fresh checkout has none of them.
const BUILT: &str = "target/";

/// The lines of a page that are not in a fenced code block.
fn prose(markdown: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    markdown.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// The targets of the inline links of a page, outside of code.
fn links(markdown: &str) -> Vec<&str> {
    let targets = prose(markdown).flat_map(|line| {
        line.split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
            .filter_map(|link| link.split(' ').next())
    });
    targets.collect()
}

/// Where a link of `page` leads within the checkout; nothing if it leads out of it or to the page itself.
fn target(page: &Path, link: &str) -> Option<PathBuf> {
    let path = link.split('#').next()?;
    if path.is_empty() || link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let mut target = page.parent()?.to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => {
                target.pop();
            }
            part => target.push(part),
        }
    }
    Some(target)
}

fn targets(page: &Path, text: &str) -> Vec<PathBuf> {
    links(text).into_iter().filter_map(|link| target(page, link)).collect()
}

#[test]
fn every_relative_link_leads_to_a_file() {
    let broken = texts("md").flat_map(|(page, text)| {
        let missing = targets(&page, &text).into_iter().filter(|target| !root().join(target).exists());
        missing.map(|target| format!("{}: no {}", page.display(), target.display())).collect::<Vec<_>>()
    });
    assert_none(&broken.collect::<Vec<_>>());
}

#[test]
fn every_page_is_linked_from_an_index() {
    let pages: Vec<_> = texts("md").collect();
    let is_index = |page: &Path| INDEXES.iter().any(|index| page == Path::new(index));
    let linked: Vec<_> = pages
        .iter()
        .filter(|(page, _)| is_index(page))
        .flat_map(|(page, text)| targets(page, text))
        .collect();
    let lost = pages
        .iter()
        .filter(|(page, _)| page.starts_with("docs") && !is_index(page) && !linked.contains(page));
    assert_none(
        &lost.map(|(page, _)| format!("{} is linked from no index", page.display())).collect::<Vec<_>>(),
    );
}

/// Whether code in a page names a file or folder of the repository: it begins with a folder at the top of the checkout, ends in
/// `/`, or has a folder and an extension. A Rust file without its folder counts, so that pages write paths in full.
fn is_path(code: &str) -> bool {
    let is_plain = code.chars().all(|c| c.is_ascii_alphanumeric() || "_-./*".contains(c));
    let is_foreign = ["/", "*", BUILT].into_iter().any(|start| code.starts_with(start));
    let names_a_file = match code.rsplit_once('/') {
        Some((folder, file)) => {
            let top = folder.split('/').next().unwrap_or_default();
            file.is_empty() || file.contains('.') || root().join(top).is_dir()
        }
        None => Path::new(code).extension().is_some_and(|extension| extension == "rs"),
    };
    is_plain && !is_foreign && names_a_file
}

/// The paths of the repository that a page names in prose; of a pattern, the folder before the first `*`.
fn named_paths(markdown: &str) -> Vec<&str> {
    let spans = prose(markdown).flat_map(|line| line.split('`').skip(1).step_by(2));
    let paths = spans.filter(|code| is_path(code)).map(|path| match path.split_once('*') {
        Some((before, _)) => before.rsplit_once('/').map_or("", |(folder, _)| folder),
        None => path,
    });
    paths.collect()
}

#[test]
fn every_path_in_code_leads_to_a_file() {
    let dead = texts("md").flat_map(|(page, text)| {
        let missing = named_paths(&text).into_iter().filter(|path| !root().join(path).exists());
        missing.map(|path| format!("{}: no {path}", page.display())).collect::<Vec<_>>()
    });
    assert_none(&dead.collect::<Vec<_>>());
}

/// The text between quotes in the lines of a source.
fn quoted(source: &str) -> Vec<&str> {
    source.lines().flat_map(|line| line.split('"').skip(1).step_by(2)).collect()
}

#[test]
fn every_annotation_of_hollow_nodes_is_documented() {
    const SOURCE: &str = "crates/cluster/src/nodes/behaviour.rs";
    const PAGE: &str = "docs/embedded-cluster.md";
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let (source, page) = (read(SOURCE), read(PAGE));
    let keys: Vec<_> = quoted(&source)
        .into_iter()
        .filter(|key| key.len() > "hollow.sts.plus/".len() && key.starts_with("hollow.sts.plus/"))
        .collect();
    assert!(keys.len() > 5, "{SOURCE} no longer says what the annotations are: {keys:?}");
    let missing = keys.iter().filter(|key| !page.contains(&format!("`{key}`")));
    assert_none(&missing.map(|key| format!("{PAGE} does not tell of {key}")).collect::<Vec<_>>());
}

#[test]
fn links_are_found_in_prose_only() {
    let page = "See [a](../a.md#part \"title\") and [b](b.md), [out](https://x.y/z), [here](#here).\n\
                ```\n[not](code.md)\n```\n![picture](pictures/c.svg)";
    let expected = ["a.md", "docs/b.md", "docs/pictures/c.svg"].map(PathBuf::from);
    assert_eq!(targets(Path::new("docs/page.md"), page), expected);
}

#[test]
fn paths_are_recognised() {
    let page = "`crates/api/src/keys.rs`, `crates/api`, `docs/`, `keys.rs`, `shell/queue.rs` and `tests/*/src/a*.rs`.\n\
                ```sh\ncat `docs/lost.md`\n```\n";
    let expected = ["crates/api/src/keys.rs", "crates/api", "docs/", "keys.rs", "shell/queue.rs", "tests"];
    assert_eq!(named_paths(page), expected);
    for code in [
        "/metrics",
        "target/debug/sts-plus",
        "sts.plus/approve",
        "apps/v1",
        "*_tests.rs",
        "<revision>/retry",
        "cargo run -- docs/a.md",
        "values.yaml",
    ] {
        assert!(!is_path(code), "{code}");
    }
}
