#!/usr/bin/env bash
# Builds the real Kubernetes that the tests run on, from the modules beside this file, into a cache that outlives the checkout.
#   build.sh          build what is missing; a no-op when nothing is
#   build.sh --where  print the folder with the binaries, or fail with the reason
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

say() { echo "testbed: $*" >&2; }
die() { say "$*"; exit 1; }

if [[ ${1:-} == --where ]]; then
  [[ -d $bin ]] || die "not built: run 'make testbed'"
  echo "$bin"
  exit
fi
[[ $# == 0 ]] || die "usage: build.sh [--where]"

# What a real node needs besides our own builds: package and a file that tells that it is there.
declare -A packages=(
  [runc]=/usr/sbin/runc
  [containernetworking-plugins]=/usr/lib/cni/bridge
  [busybox-static]=/bin/busybox
  [iproute2]=/sbin/ip
)
missing=()
for package in "${!packages[@]}"; do [[ -e ${packages[$package]} ]] || missing+=("$package"); done
if ((${#missing[@]})); then
  if [[ $EUID == 0 && -e /etc/debian_version ]]; then
    say "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -qq --yes --no-install-recommends "${missing[@]}"; } >/dev/null ||
      die "could not install ${missing[*]}"
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

[[ -d $bin ]] && exit
command -v go >/dev/null || die "Go is missing: install it (see the go line of $here/kubernetes/go.mod for the version)"
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9 # two builds at once would only take each other's cores
[[ -d $bin ]] && exit
scratch=$cache/scratch
rm -rf "$scratch"

for module in "${modules[@]}"; do
  [[ -d ${built[$module]} ]] && continue
  say "building $module"
  SECONDS=0
  IFS=';' read -ra arguments <<<"${flags[$module]}"
  mkdir "$scratch"
  (cd "$here/$module" && GOWORK=off CGO_ENABLED=0 GOBIN=$scratch go install "${arguments[@]}" tool)
  [[ $module == etcd ]] && mv "$scratch/server" "$scratch/etcd"
  mv -T "$scratch" "${built[$module]}"
  say "built $module in $SECONDS s"
done

mkdir "$scratch"
for module in "${modules[@]}"; do ln -sr "${built[$module]}"/* "$scratch"; done
mv -T "$scratch" "$bin"
say "ready in $bin"
