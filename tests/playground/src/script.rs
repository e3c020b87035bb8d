//! Scripts of commands for both clusters, as data.
//!
//! | line | meaning |
//! |---|---|
//! | `$ command` | succeeds on both |
//! | `= command` | succeeds on both and says the same |
//! | `! command` | fails on both and says the same |
//! | `@ command` | succeeds on the embedded cluster; lines after `>` are in what it says |
//! | `? command` | fails there; lines after `>` are in what it says |

use std::path::{Path, PathBuf};

use crate::neutral::Neutral;
use crate::shell::{Said, Shell};

/// A script of its own namespace.
#[derive(Clone, Debug)]
pub struct Script {
    /// Also the name of its namespace.
    pub name: String,
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
struct Step {
    sign: char,
    command: String,
    /// What is said among other things.
    says: Vec<String>,
}

/// A script that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The folder or a file is not there.
    #[error("{0}: {1}")]
    File(PathBuf, std::io::Error),
    /// A line of no known form.
    #[error("{0}: what does this mean: {1}")]
    Line(PathBuf, String),
}

impl Script {
    /// All scripts of a folder.
    pub fn read_all(folder: &Path) -> Result<Vec<Self>, ScriptError> {
        let failed = |error| ScriptError::File(folder.to_owned(), error);
        let entries = std::fs::read_dir(folder).map_err(failed)?;
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.retain(|path| path.extension().is_some_and(|ext| ext == "txt"));
        paths.sort();
        paths.iter().map(|path| Self::read(path)).collect()
    }

    fn read(path: &Path) -> Result<Self, ScriptError> {
        let text =
            std::fs::read_to_string(path).map_err(|error| ScriptError::File(path.to_owned(), error))?;
        let mut steps: Vec<Step> = Vec::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            match (line.split_once(' '), steps.last_mut()) {
                (Some((">", said)), Some(step)) => step.says.push(said.to_owned()),
                (Some((sign @ ("$" | "=" | "!" | "@" | "?"), command)), _) => steps.push(Step {
                    sign: sign.chars().next().unwrap_or_default(),
                    command: command.to_owned(),
                    says: Vec::new(),
                }),
                _ => return Err(ScriptError::Line(path.to_owned(), line.to_owned())),
            }
        }
        let name = path.file_stem().map(|stem| stem.to_string_lossy().replace('_', "-"));
        Ok(Script { name: name.unwrap_or_default(), steps })
    }

    /// Runs it on the embedded cluster and on a real one; says what was wrong, if anything.
    pub fn play(&self, ours: &Shell, theirs: &Shell, neutral: &Neutral) -> Result<(), String> {
        for step in &self.steps {
            step.play(ours, theirs, neutral)
                .map_err(|why| format!("{} {}\n{why}", step.sign, step.command))?;
        }
        Ok(())
    }
}

impl Step {
    fn play(&self, ours: &Shell, theirs: &Shell, neutral: &Neutral) -> Result<(), String> {
        let run = |shell: &Shell| shell.run(&self.command).map_err(|error| error.to_string());
        let on_both = matches!(self.sign, '$' | '=' | '!');
        let (ours, theirs) = std::thread::scope(|scope| {
            let theirs = on_both.then(|| scope.spawn(|| run(theirs)));
            let ours = run(ours);
            let theirs = theirs.map(|theirs| theirs.join().map_err(|_| "the real one panicked".to_owned()));
            (ours, theirs)
        });
        let (ours, theirs) = (ours?, theirs.transpose()?.transpose()?);
        let wanted = matches!(self.sign, '$' | '=' | '@');
        for (who, said) in [("embedded", Some(&ours)), ("real", theirs.as_ref())] {
            if let Some(Said { text, .. }) = said.filter(|said| said.success != wanted) {
                return Err(format!("{who}: should {}\n{text}", if wanted { "succeed" } else { "fail" }));
            }
        }
        if let (Some(theirs), '=' | '!') = (theirs, self.sign) {
            let (ours, theirs) = (neutral.text(&ours.text), neutral.text(&theirs.text));
            if ours != theirs {
                return Err(format!("embedded:\n{ours}\nreal:\n{theirs}"));
            }
        }
        match self.says.iter().find(|says| !ours.text.contains(*says)) {
            Some(missing) => Err(format!("does not say {missing:?}:\n{}", ours.text)),
            None => Ok(()),
        }
    }
}
