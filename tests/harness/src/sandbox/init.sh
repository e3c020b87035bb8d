# Process 1 of a sandbox: keeps what a node does to a machine from this machine, then runs the test.
# What is mounted here goes with the sandbox's last process.
set -eu
folder=$STS_PLUS_SANDBOX
mount -t tmpfs sandbox "$folder"

# containerd, kubelet and the network plugins also write to folders that nobody can choose for them.
for path in /run /var /opt; do
  [ -d "$path" ] || continue
  layer=$folder/layers$path
  mkdir -p "$layer/written" "$layer/work"
  mount -t overlay sandbox -o "lowerdir=$path,upperdir=$layer/written,workdir=$layer/work" "$path"
done

# kubelet sets these its way.
for setting in kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes \
  vm/overcommit_memory vm/panic_on_oom; do
  [ -e "/proc/sys/$setting" ] || continue
  copy=$folder/settings/$setting
  mkdir -p "${copy%/*}"
  cat "/proc/sys/$setting" >"$copy"
  mount --bind "$copy" "/proc/sys/$setting"
done

ip link set lo up

# Not replaced by the test: somebody has to collect the processes whose parents are gone.
status=0
"$@" || status=$?
exit "$status"
