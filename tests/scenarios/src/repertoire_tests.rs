use std::collections::BTreeSet;

use super::{Because, Kind, ONLY_REAL, Repertoire, groups, phased, scaling, statefulset};
use crate::scenarios::Scenario;

fn names(repertoire: &Repertoire) -> BTreeSet<&'static str> {
    let names: BTreeSet<_> = repertoire.scenarios.iter().map(|scenario| scenario.name).collect();
    assert_eq!(names.len(), repertoire.scenarios.len(), "no name stands for two scenarios");
    names
}

fn all_real() -> Vec<Scenario> {
    [groups, phased, scaling, statefulset].into_iter().flat_map(|list| list(Kind::Real).scenarios).collect()
}

#[test]
fn everything_but_the_table_and_enumerations_is_played_on_both_clusters() {
    let only_real: BTreeSet<_> = ONLY_REAL.iter().map(|(name, _)| *name).collect();
    let enumerations = [crate::extended::enumerations(), scaling::enumerations()].concat();
    let only_here: BTreeSet<_> = enumerations.iter().map(|one| one.name).collect();
    for list in [groups, phased, scaling, statefulset] {
        let (real, embedded) = (list(Kind::Real), list(Kind::Embedded));
        assert_eq!(real.native, embedded.native);
        let missing: BTreeSet<_> = names(&real).difference(&names(&embedded)).copied().collect();
        assert!(missing.is_subset(&only_real), "{missing:?}");
        let missing: BTreeSet<_> = names(&embedded).difference(&names(&real)).copied().collect();
        assert!(missing.is_subset(&only_here), "what is played here is played there: {missing:?}");
    }
}

#[test]
fn what_the_table_names_exists_and_needs_what_it_says() {
    let all = all_real();
    for (name, because) in ONLY_REAL {
        let known = all.iter().find(|scenario| scenario.name == name);
        let known = known.unwrap_or_else(|| panic!("there is no scenario {name}"));
        assert_eq!(known.needs_binary, because == Because::OfProcesses, "{name}");
    }
    let processes = all.iter().filter(|scenario| scenario.needs_binary).count();
    let told = ONLY_REAL.iter().filter(|(_, because)| *because == Because::OfProcesses).count();
    assert_eq!(processes, told, "whatever starts the binary is in the table");
}

/// A list that one kind of test plays and the other does not would go unnoticed.
#[test]
fn each_list_has_a_test_for_each_kind_of_cluster() {
    let mut played = [BTreeSet::new(), BTreeSet::new()];
    for file in std::fs::read_dir(sts_plus_harness::package().join("tests")).unwrap() {
        let path = file.unwrap().path();
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        for list in ["groups", "phased", "scaling", "statefulset"] {
            for (on, played) in ["Real", "Embedded"].iter().zip(&mut played) {
                if text.contains(&format!("repertoire::{list}(repertoire::Kind::{on})")) {
                    played.insert(list);
                }
            }
        }
    }
    let every = BTreeSet::from(["groups", "phased", "scaling", "statefulset"]);
    assert_eq!(played, [every.clone(), every]);
}
