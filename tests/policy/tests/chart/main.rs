//! The Helm chart, rendered by the real helm and read as the API server would: what it asks for, what it is
//! allowed, what it refuses. Tests that need helm are skipped where the test bed is not built, and fail in CI.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "assertions: libtest-mimic turns a panic into a failed test"
)]

mod admission;
mod helm;
mod objects;
mod permissions;
mod refusals;
mod sources;

use std::process::ExitCode;

use helm::Helm;
use libtest_mimic::{Arguments, Completion, Trial};

type Named<F> = (&'static str, F);

const WITHOUT_HELM: &[Named<fn()>] = &[
    ("versions_agree", sources::versions_agree),
    ("image_agrees_with_chart", sources::image_agrees_with_chart),
    ("every_value_is_documented", sources::every_value_is_documented),
    ("schema_and_values_name_the_same_keys", sources::schema_and_values_name_the_same_keys),
    ("the_chart_knows_the_controllers_there_are", sources::the_chart_knows_the_controllers_there_are),
    ("everything_on_changes_every_value", sources::everything_on_changes_every_value),
];

const WITH_HELM: &[Named<fn(&Helm)>] = &[
    ("lint_finds_nothing", objects::lint_finds_nothing),
    ("pods_are_restricted", objects::pods_are_restricted),
    ("a_standby_is_always_there", objects::a_standby_is_always_there),
    ("probes_and_service_find_the_port", objects::probes_and_service_find_the_port),
    ("selectors_match_the_pods", objects::selectors_match_the_pods),
    ("values_reach_the_command_line", objects::values_reach_the_command_line),
    ("every_value_reaches_an_object", objects::every_value_reaches_an_object),
    ("names_stay_names", objects::names_stay_names),
    ("the_guard_of_scaling_lets_sts_plus_through", objects::the_guard_of_scaling_lets_sts_plus_through),
    ("optional_objects_come_and_go", objects::optional_objects_come_and_go),
    ("the_kinds_arrive_as_printed_and_stay", objects::the_kinds_arrive_as_printed_and_stay),
    (
        "prometheus_and_pods_are_reachable_for_those_who_ask_them_only",
        objects::prometheus_and_pods_are_reachable_for_those_who_ask_them_only,
    ),
    ("permissions_are_named_one_by_one", permissions::named_one_by_one),
    ("one_namespace_grants_what_all_grant", permissions::same_rules_in_both_modes),
    ("namespaced_mode_has_no_cluster_role", permissions::namespaced_mode_has_no_cluster_role),
    ("the_lease_is_ours_alone", permissions::the_lease_is_ours_alone),
    (
        "secrets_are_read_by_name_where_allowed_and_nowhere_else",
        permissions::secrets_are_read_by_name_where_allowed_and_nowhere_else,
    ),
    (
        "users_get_the_kind_with_the_rights_they_have",
        permissions::users_get_the_kind_with_the_rights_they_have,
    ),
    (
        "claims_are_given_in_the_way_that_the_server_has",
        admission::claims_are_given_in_the_way_that_the_server_has,
    ),
    ("both_ways_select_the_same_pods", admission::both_ways_select_the_same_pods),
    ("the_webhook_is_reached_and_trusted", admission::the_webhook_is_reached_and_trusted),
    ("the_certificate_is_ours_alone", admission::the_certificate_is_ours_alone),
    ("bad_values_are_refused", refusals::bad_values_are_refused),
];

fn main() -> ExitCode {
    let args = Arguments::from_args();
    let helm = Helm::find();
    let must_run = std::env::var("CI").is_ok_and(|ci| ci == "true");
    let mut trials: Vec<_> = WITHOUT_HELM
        .iter()
        .map(|(name, test)| {
            Trial::test(*name, || {
                test();
                Ok(())
            })
        })
        .collect();
    trials.extend(WITH_HELM.iter().map(|(name, test)| {
        let helm = helm.clone();
        Trial::ignorable_test(*name, move || match helm {
            Ok(helm) => {
                test(&helm);
                Ok(Completion::Completed)
            }
            Err(missing) if must_run => Err(missing.into()),
            Err(missing) => Ok(Completion::ignored_with(missing)),
        })
    }));
    let conclusion = libtest_mimic::run(&args, trials);
    if let (Err(missing), false) = (helm, must_run) {
        eprintln!("\nSKIPPED: {} chart tests. {missing}\n", WITH_HELM.len());
    }
    conclusion.exit_code()
}
