//! The process table: memory, processor time and the machine's load.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// Memory of a process, in KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) resident: u64,
    pub(crate) peak: u64,
}

/// What a process holds now, and held at most.
pub(crate) fn memory(pid: u32) -> Result<Memory> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| path.clone())?;
    parse_memory(&status).with_context(|| format!("{path} has no VmRSS or VmHWM"))
}

fn parse_memory(status: &str) -> Option<Memory> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.strip_suffix("kB")?.trim().parse().ok()
    };
    Some(Memory { resident: field("VmRSS:")?, peak: field("VmHWM:")? })
}

/// The processor time that a process has used, in user mode and in the kernel.
pub(crate) fn cpu(pid: u32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).with_context(|| path.clone())?;
    let ticks = parse_ticks(&stat).with_context(|| format!("{path} has no times"))?;
    let per_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_millis(ticks * 1000 / per_second.max(1)))
}

fn parse_ticks(stat: &str) -> Option<u64> {
    // The second field is the name in parentheses and may hold anything; the times are the 14th and 15th.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(|field| field.parse::<u64>().ok());
    Some(times.next()?? + times.next()??)
}

/// The machine's load over the last minute.
pub(crate) fn load() -> String {
    let averages = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    averages.split(' ').next().unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_by_name() {
        let status = "Name:\tx\nVmHWM:\t   31100 kB\nVmRSS:\t   20480 kB\nThreads:\t3\n";
        assert_eq!(parse_memory(status), Some(Memory { resident: 20_480, peak: 31_100 }));
        assert_eq!(parse_memory("Name:\tx\n"), None);
    }

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194304 1 2 3 4 250 50 6 7 20 0 3 0 99 100 200";
        assert_eq!(parse_ticks(stat), Some(300));
        assert_eq!(parse_ticks("7 (x) S 1"), None);
    }

    #[test]
    fn this_process_has_both() {
        let own = std::process::id();
        let memory = memory(own).unwrap();
        assert!(memory.resident > 0 && memory.peak >= memory.resident);
        cpu(own).unwrap();
    }
}
