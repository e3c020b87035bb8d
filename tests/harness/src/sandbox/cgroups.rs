//! One cgroup in every hierarchy, the only thing besides a folder that outlives its processes.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Makes the cgroup. One that is there is left as it is: two mounts may show the same hierarchy.
pub(super) fn create(name: &str) -> io::Result<()> {
    for hierarchy in hierarchies()? {
        match fs::create_dir(hierarchy.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Removes the cgroup and those below; fails while one has processes.
pub(super) fn remove(name: &str) -> io::Result<()> {
    hierarchies()?.into_iter().try_for_each(|hierarchy| remove_tree(&hierarchy.join(name)))
}

/// The files in a cgroup are not really there, so only folders are removed, the innermost first.
fn remove_tree(cgroup: &Path) -> io::Result<()> {
    let gone = |result: io::Result<()>| match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    };
    gone(fs::read_dir(cgroup).and_then(|mut entries| {
        entries.try_for_each(|entry| {
            let entry = entry?;
            if entry.file_type()?.is_dir() { remove_tree(&entry.path()) } else { Ok(()) }
        })
    }))?;
    gone(fs::remove_dir(cgroup))
}

fn hierarchies() -> io::Result<Vec<PathBuf>> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let hierarchies = fields.filter_map(|fields| match *fields {
        [_, mount_point, "cgroup" | "cgroup2", ..] => Some(mount_point.into()),
        _ => None,
    });
    Ok(hierarchies.collect())
}
