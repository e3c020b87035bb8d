//! All scenarios, and on which clusters each is played: on both, but for those of one table.

use crate::native::compare::Rival;
use crate::native::{bout, ids, scripts, trials};
use crate::scenarios::Scenario;
use crate::{extended, gated, scaling, scenarios};

/// What a cluster is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// etcd, kube-apiserver, kube-controller-manager.
    Real,
    /// Everything in the process of the test, under a paused clock.
    Embedded,
}

/// Scenarios that are played one after the other, or some at once, on clusters of one kind.
#[derive(Clone)]
pub struct Repertoire {
    pub scenarios: Vec<Scenario>,
    /// Whether the cluster that they share has a StatefulSet controller of its own.
    pub native: bool,
}

/// Why a scenario cannot be played on the embedded cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Because {
    /// It starts the binary as a process, which reaches its API server through a kubeconfig and a socket, and real
    /// processes know nothing of a paused clock.
    OfProcesses,
    /// It starts kubectl, for which the same holds.
    OfKubectl,
    /// It takes permissions away, which the embedded cluster stores and does not enforce.
    OfPermissions,
    /// It asks a real Prometheus, over a socket.
    OfPrometheus,
    /// It installs a ValidatingAdmissionPolicy, which the embedded cluster does not have.
    OfAdmissionPolicies,
}

/// What is played on the real cluster only.
pub const ONLY_REAL: [(&str, Because); 28] = [
    ("a_leader_paused_past_its_lease_and_woken_starts_no_new_write", Because::OfProcesses),
    ("a_killed_leader_is_followed_when_its_lease_has_run_out", Because::OfProcesses),
    ("a_leader_that_is_asked_to_stop_hands_over", Because::OfProcesses),
    ("an_operator_killed_in_the_middle_goes_on_when_it_is_started_again", Because::OfProcesses),
    ("b_a14_11_a_sigkill_within_a_gate_changes_nothing", Because::OfProcesses),
    ("b_a14_3_credentials_come_rotate_and_are_shown_nowhere", Because::OfProcesses),
    ("a_loopback_address_is_refused_unless_a_flag_allows_it", Because::OfProcesses),
    ("b_a14_14_people_steer_from_the_command_line", Because::OfProcesses),
    (
        "a_b9_6_a_drain_goes_on_over_two_sigkills_of_the_operator_and_its_pod_is_called_once",
        Because::OfProcesses,
    ),
    ("kubectl_apply_without_a_partition_leaves_ours_alone", Because::OfKubectl),
    ("d_example_zones_runs_two_pods_in_each_zone_and_rolls_them", Because::OfKubectl),
    ("d_example_active_passive_has_one_endpoint_that_moves", Because::OfKubectl),
    ("d_example_config_replaces_its_pods_when_the_map_is_updated", Because::OfKubectl),
    ("d_example_blue_green_waits_for_its_approval", Because::OfKubectl),
    ("d_example_handover_gives_each_version_the_claims_of_the_one_before", Because::OfKubectl),
    ("d_example_services_of_users_select_the_pods_of_every_version", Because::OfKubectl),
    ("d_f6_the_documented_configs_example_shows_the_new_value", Because::OfKubectl),
    ("d_z3_the_documented_azs_example_runs_two_pods_in_each_zone", Because::OfKubectl),
    ("d_s6_the_documented_pvcs_example_binds_two_claims", Because::OfKubectl),
    ("d_a12_the_documented_active_probe_example_makes_one_pod_active", Because::OfKubectl),
    ("d_f14_a_secret_that_cannot_be_read_is_reported_until_it_can", Because::OfPermissions),
    ("a_missing_permission_is_told_and_does_not_become_a_hot_loop", Because::OfPermissions),
    ("a_real_prometheus_stops_a_rollout_and_lets_it_go_on", Because::OfPrometheus),
    ("nothing_scraped_does_not_pass_where_data_is_required", Because::OfPrometheus),
    ("a_example_loki_prepares_each_ingester_before_it_is_removed", Because::OfKubectl),
    ("a_example_scale_hooks_prepares_each_broker_before_it_is_removed", Because::OfKubectl),
    ("a_example_broker_drains_two_at_a_time_and_lets_them_join", Because::OfKubectl),
    ("a_guard_refuses_others_who_lower_the_replicas_and_names_the_policy", Because::OfAdmissionPolicies),
];

/// The scenarios of rollout groups, and of ExtendedStatefulSets, whose zones are such groups.
pub fn groups(on: Kind) -> Repertoire {
    let enumerations = match on {
        Kind::Real => Vec::new(),
        Kind::Embedded => extended::enumerations(),
    };
    let all = [enumerations, extended::all(), scenarios::all()].concat();
    Repertoire { scenarios: playable(all, on), native: true }
}

/// The scenarios of phased rollouts.
pub fn phased(on: Kind) -> Repertoire {
    let all = [gated::trials::all(), gated::scenarios::all()].concat();
    Repertoire { scenarios: playable(all, on), native: true }
}

/// The scenarios of ScalingPolicies.
pub fn scaling(on: Kind) -> Repertoire {
    let enumerations = match on {
        Kind::Real => Vec::new(),
        Kind::Embedded => scaling::enumerations(),
    };
    Repertoire { scenarios: playable([enumerations, scaling::all()].concat(), on), native: true }
}

/// The scenarios of the StatefulSet controller. On the real cluster scripts are played under Kubernetes' own controller first
/// and ours is compared with it; on the embedded one there is only ours, and what the script expects.
pub fn statefulset(on: Kind) -> Repertoire {
    let script = match on {
        Kind::Real => bout::scenario,
        Kind::Embedded => bout::alone,
    };
    let scripts: Vec<_> = scripts::all().into_iter().map(script).collect();
    // Theirs is stopped before the second half only if that half is ours.
    let of_ours = if bout::rival() == Rival::Ours { ids::all() } else { Vec::new() };
    Repertoire { scenarios: playable([trials::all(), scripts, of_ours].concat(), on), native: false }
}

fn playable(all: Vec<Scenario>, on: Kind) -> Vec<Scenario> {
    let only_real = |scenario: &Scenario| ONLY_REAL.iter().any(|(name, _)| *name == scenario.name);
    all.into_iter().filter(|scenario| on == Kind::Real || !only_real(scenario)).collect()
}

#[cfg(test)]
#[path = "repertoire_tests.rs"]
mod tests;
