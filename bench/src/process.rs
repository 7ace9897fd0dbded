//! Commands that end by themselves, and processes that end with their guard.

use crate::error::{Context, Error, Result};
use std::{
    ffi::OsStr,
    fs::File,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Runs a command and returns its standard output; waits for its end for at most `within`.
pub fn output(command: &mut Command, within: Duration) -> Result<String> {
    let name = format!("{command:?}");
    let failed = |reason: String| Error::Command {
        command: name.clone(),
        reason,
    };
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let pid = child.id();
    // The pipes are read while the command runs, so that it cannot wait for them.
    let reader = thread::spawn(move || child.wait_with_output());
    let deadline = Instant::now() + within;
    while !reader.is_finished() {
        if Instant::now() > deadline {
            signal(pid, "KILL");
            return Err(failed(format!("still runs after {within:?}")));
        }
        thread::sleep(POLL);
    }
    let output = reader
        .join()
        .map_err(|_| failed("was not read".to_owned()))?
        .context(name.clone())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(failed(format!(
            "{}{}",
            text(&output.stdout).trim(),
            text(&output.stderr).trim()
        ))),
    }
}

/// Runs a command line of words separated by single spaces.
pub fn run(line: &str) -> Result<String> {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().unwrap_or_default());
    output(command.args(words), Duration::from_secs(30))
}

/// The path of a program: itself, or found in `PATH`.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    // Servers are often in directories outside of a user's `PATH`.
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/usr/local/sbin".into()])
        .map(|directory| directory.join(program))
        .find(|path| path.is_file())
}

/// The path of a program; an error with its package if it is missing.
pub fn require(program: &'static str, package: &'static str) -> Result<PathBuf> {
    find(program).ok_or(Error::Missing { program, package })
}

/// A program with its arguments and environment.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// The arguments.
    pub args: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
}

impl Program {
    /// A program without arguments and environment.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            ..Self::default()
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl ToString) -> Self {
        self.args.push(arg.to_string());
        self
    }

    /// Adds an argument before all others.
    #[must_use]
    pub fn arg_first(mut self, arg: impl ToString) -> Self {
        self.args.insert(0, arg.to_string());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl ToString>) -> Self {
        self.args
            .extend(args.into_iter().map(|arg| arg.to_string()));
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: impl ToString, value: impl ToString) -> Self {
        self.env.push((name.to_string(), value.to_string()));
        self
    }

    /// Runs the program under another program, which takes it as its last arguments.
    #[must_use]
    pub fn under(self, path: impl Into<PathBuf>, args: &[&str]) -> Self {
        let mut all: Vec<String> = args.iter().map(ToString::to_string).collect();
        all.push(self.path.to_string_lossy().into_owned());
        all.extend(self.args);
        Self {
            path: path.into(),
            args: all,
            env: self.env,
        }
    }

    /// Starts the program on the given cores, as another user if one is given; its output goes to a file.
    pub fn start(&self, cores: &str, user: Option<u32>, log: &Path) -> Result<Running> {
        let mut command = Command::new("taskset");
        command
            .args(["-c", cores])
            .arg(&self.path)
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().map(|(k, v)| (OsStr::new(k), OsStr::new(v))));
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let name = self.path.display().to_string();
        let output = File::create(log).context(log.display().to_string())?;
        let error = output.try_clone().context(name.clone())?;
        let child = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(error)
            .spawn()
            .context(name)?;
        Ok(Running {
            child,
            log: log.to_owned(),
        })
    }
}

/// A process; dropping it ends the process.
pub struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// An error with the end of the log.
    pub fn failed(&self, reason: &str) -> Error {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(LOG_LINES).collect();
        let lines: Vec<_> = lines.into_iter().rev().collect();
        Error::Command {
            command: self.log.display().to_string(),
            reason: format!("{reason}; it wrote:\n{}", lines.join("\n")),
        }
    }

    /// Whether the process has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a signal.
    pub fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Waits for the end; a process that still runs then is killed on drop.
    pub fn wait(&mut self, within: Duration) -> Result<()> {
        let deadline = Instant::now() + within;
        while !self.has_ended() {
            if Instant::now() > deadline {
                return Err(self.failed(&format!("still runs after {within:?}")));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // A process with children gets time to end them.
        if !self.has_ended() {
            self.signal("TERM");
            let _ = self.wait(GRACE);
        }
        // Both fail only if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(pid: u32, name: &str) {
    // The process may have ended meanwhile, which is fine.
    let _ = Command::new("kill")
        .args([&format!("-{name}"), &pid.to_string()])
        .stderr(Stdio::null())
        .status();
}

const POLL: Duration = Duration::from_millis(2);
/// Time before a process is killed; proxies drain connections for longer, which is not needed here.
const GRACE: Duration = Duration::from_millis(200);
/// The number of shown lines of a log.
const LOG_LINES: usize = 15;
