//! The sample of `sts-plus status` in the README, compared with what the binary prints.

use sts_plus_harness::wait::{NotYet, until};
use sts_plus_scenarios::observer::DEADLINE;

use crate::shell::{Shell, printed};

/// The pod at which the sample shows the rollout. It stays Terminating for as long as the rollout is held.
const HELD: &str = "store-zone-a-1";

/// The characters in the hash of a revision's name. Kubernetes uses no vowels, so that no hash is a word.
const HASH: &str = "bcdfghjklmnpqrstvwxz2456789";

/// Distinguishes a hash from an ordinal. A hash encodes the decimal digits of a 32-bit number, so that nearly all have nine or
/// ten characters.
const MIN_HASH: usize = 5;

/// Makes the next rollout stop at [`HELD`].
pub(crate) fn hold(shell: &Shell) {
    annotate(shell, "hollow.sts.plus/fault=stuck-terminating");
}

/// Lets the rollout resume.
pub(crate) fn resume(shell: &Shell) {
    annotate(shell, "hollow.sts.plus/fault-");
}

fn annotate(shell: &Shell, annotation: &str) {
    let output = shell.run(&format!("kubectl annotate pod {HELD} {annotation}"));
    assert!(output.status.success(), "{}", printed(&output));
}

/// Waits until the rollout has stopped at [`HELD`]: from then on every `sts-plus status` prints the same but for ages.
pub(crate) async fn held(shell: &Shell) {
    // The generation of each set, and the one that the StatefulSet controller has observed.
    let sets = "kubectl get statefulsets -l rollout-group=store -o jsonpath=\
                '{range .items[*]}{.metadata.generation} {.status.observedGeneration}{\"\\n\"}{end}'";
    let pod = format!("kubectl get pod {HELD} -o jsonpath='{{.metadata.deletionTimestamp}}'");
    until(DEADLINE, "the rollout to stop at the held pod", || async {
        let (sets, pod) = (printed(&shell.run(sets)), printed(&shell.run(&pod)));
        let observed =
            sets.lines().all(|set| set.split_once(' ').is_some_and(|(spec, status)| spec == status));
        let is_held = observed && !pod.is_empty();
        is_held.then_some(()).ok_or_else(|| NotYet::saw(format!("generations {sets:?}, deleted at {pod:?}")))
    })
    .await;
}

/// Compares the `text` block of a page with what was printed.
pub(crate) fn compare(page: &str, shown: &str) -> Result<(), String> {
    let (_, rest) = page.split_once("```text\n").ok_or("the page has no text block")?;
    let (sample, _) = rest.split_once("```").ok_or("the text block has no end")?;
    if normal(sample) == normal(shown) {
        return Ok(());
    }
    Err(format!(
        "the page shows\n{sample}\nand `sts-plus status` prints, which belongs there instead:\n{shown}"
    ))
}

/// What is the same in every run: ages are left out, and revisions are numbered in the order of their appearance.
fn normal(text: &str) -> String {
    let mut revisions = Vec::new();
    let mut before = "";
    let words = text.split_inclusive([' ', '\n']).map(|piece| {
        let word = piece.trim_end().trim_end_matches([',', '.', ':', ';', ')']);
        let rest = piece.get(word.len()..).unwrap_or_default();
        let normal = match word {
            age if before == "for" && is_age(age) => "AGE".to_owned(),
            revision if is_revision(revision) => numbered(&mut revisions, revision),
            word => word.to_owned(),
        };
        before = word;
        normal + rest
    });
    words.collect()
}

/// `3s`, `12m`, `5h`, `2d`.
fn is_age(word: &str) -> bool {
    let number = word.strip_suffix(['s', 'm', 'h', 'd']);
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// `store-zone-a-7d9c5b8f6`.
fn is_revision(word: &str) -> bool {
    let hash = word.rsplit_once('-').map_or("", |(_, hash)| hash);
    hash.len() >= MIN_HASH && hash.chars().all(|character| HASH.contains(character))
}

/// The set's name, and the position of the revision among those met so far.
fn numbered<'a>(revisions: &mut Vec<&'a str>, revision: &'a str) -> String {
    let position = revisions.iter().position(|met| *met == revision).unwrap_or_else(|| {
        revisions.push(revision);
        revisions.len() - 1
    });
    let set = revision.rsplit_once('-').map_or("", |(set, _)| set);
    format!("{set}-REVISION{position}")
}
