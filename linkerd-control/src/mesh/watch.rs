//! Watches a mesh file by polling.
//!
//! Polling sees changes that the kernel's notifications miss: editors that write a new file and rename it over the old
//! one, mounted directories that are switched by a symbolic link (as Kubernetes mounts a ConfigMap), bind mounts in
//! containers, network file systems. A few `stat` calls a second cost nothing.

use super::error::MeshError;
use super::file::read;
use super::hosts::Hosts;
use super::hosts::{Resolve, SystemResolver};
use super::model::Mesh;
use crate::controller::Controller;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

/// Applies a mesh file to a controller like [`watch_file_with`], with the system's resolver.
pub async fn watch_file(controller: Controller, path: impl Into<PathBuf>) -> FileWatch {
    watch_file_with(controller, path, Arc::new(SystemResolver)).await
}

/// Applies a mesh file to a controller: now, after each change of the file, and after each change of its hosts' addresses,
/// until the returned handle is dropped.
///
/// Returns after the first load, successful or not. A refused file changes nothing: the controller keeps its state.
/// Must be called within a runtime.
pub async fn watch_file_with(
    controller: Controller,
    path: impl Into<PathBuf>,
    resolver: Arc<dyn Resolve>,
) -> FileWatch {
    let mut watched = Watched {
        path: Arc::new(path.into()),
        seen: None,
        mesh: None,
        hosts: Hosts::new(resolver),
        controller,
        resolved: watch::Sender::new(false),
    };
    let resolved = watched.resolved.subscribe();
    let outcome = watched.load().await;
    // The first check always has an outcome.
    let outcome = outcome.unwrap_or_else(|| Err(watched.unreadable("nothing was read")));
    let (tx, loads) = watch::channel(MeshLoad {
        sequence: 0,
        refused: u64::from(outcome.is_err()),
        outcome,
    });
    let reload = Arc::new(Notify::new());
    let asked = reload.clone();
    let task = tokio::spawn(async move {
        loop {
            tokio::select! {
                () = tokio::time::sleep(POLL) => {}
                () = asked.notified() => watched.seen = None,
                () = watched.hosts.changed() => watched.apply(),
            }
            if let Some(outcome) = watched.load().await {
                tx.send_modify(|load| {
                    load.sequence += 1;
                    load.refused += u64::from(outcome.is_err());
                    load.outcome = outcome;
                });
            }
        }
    });
    FileWatch {
        loads,
        reload,
        resolved,
        task: task.abort_handle(),
    }
}

/// Watches a mesh file until dropped.
#[derive(Debug)]
pub struct FileWatch {
    loads: watch::Receiver<MeshLoad>,
    reload: Arc<Notify>,
    resolved: watch::Receiver<bool>,
    task: AbortHandle,
}

/// A load of the file, after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshLoad {
    /// 0 for the first load, then counting.
    pub sequence: u64,
    /// The number of loads that were refused so far, this one included.
    pub refused: u64,
    /// The applied mesh, or the error.
    pub outcome: Result<AppliedMesh, MeshError>,
}

/// An applied mesh file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedMesh {
    /// The number of services.
    pub services: usize,
    /// The number of endpoints of all services.
    pub endpoints: usize,
}

impl FileWatch {
    /// The last load.
    pub fn last(&self) -> MeshLoad {
        self.loads.borrow().clone()
    }

    /// Waits until a mesh is applied in which every host name has addresses.
    pub async fn resolved(&self) {
        let mut resolved = self.resolved.clone();
        if resolved.wait_for(|resolved| *resolved).await.is_err() {
            // The task has ended, so that there will be no further address.
            std::future::pending::<()>().await;
        }
    }

    /// Reads the file again soon, whether it changed or not.
    pub fn reload(&self) {
        self.reload.notify_one();
    }

    /// The last load and all later ones.
    pub fn loads(&self) -> watch::Receiver<MeshLoad> {
        self.loads.clone()
    }
}

impl Drop for FileWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Watched {
    controller: Controller,
    path: Arc<PathBuf>,
    seen: Option<Seen>,
    /// The last valid mesh.
    mesh: Option<Mesh>,
    hosts: Hosts,
    /// Whether all host names of the applied mesh have addresses.
    resolved: watch::Sender<bool>,
}

#[derive(Clone)]
struct Seen {
    stamp: Option<Stamp>,
    text: Result<String, MeshError>,
}

/// The attributes that change when a file is written or replaced: device, inode, length, seconds and nanoseconds of the
/// change.
type Stamp = (u64, u64, u64, i64, i64);

impl Watched {
    /// Loads the file if its text has changed.
    async fn load(&mut self) -> Option<Result<AppliedMesh, MeshError>> {
        let (path, stamp) = (self.path.clone(), self.seen.as_ref().map(|s| s.stamp));
        // A file system that hangs must not block the runtime's other tasks.
        let seen = tokio::task::spawn_blocking(move || look(&path, stamp)).await;
        let seen = match seen {
            Ok(seen) => seen?,
            Err(error) => Seen {
                stamp: None,
                text: Err(self.unreadable(&error.to_string())),
            },
        };
        let old = self.seen.replace(seen.clone());
        if old.is_some_and(|old| old.text == seen.text) {
            return None;
        }
        let mesh = seen
            .text
            .and_then(|text| Mesh::parse(&self.path.display().to_string(), &text));
        let mesh = match mesh {
            Ok(mesh) => mesh,
            Err(error) => return Some(Err(error)),
        };
        self.hosts.follow(mesh.hosts()).await;
        let accepted = AppliedMesh {
            services: mesh.services(),
            endpoints: mesh.endpoints(),
        };
        self.mesh = Some(mesh);
        self.apply();
        Some(Ok(accepted))
    }

    /// Applies the mesh with the current addresses of its hosts.
    fn apply(&mut self) {
        let known = self.hosts.known();
        if let Some(mesh) = &self.mesh {
            self.controller.apply_with(mesh, &known);
            let has_addresses = |host| known.get(host).is_some_and(|ips| !ips.is_empty());
            self.resolved
                .send_replace(mesh.hosts().iter().all(has_addresses));
        }
    }

    fn unreadable(&self, reason: &str) -> MeshError {
        MeshError::Read {
            file: self.path.display().to_string(),
            reason: reason.to_owned(),
        }
    }
}

/// Reads the file if its stamp has changed.
fn look(path: &Path, before: Option<Option<Stamp>>) -> Option<Seen> {
    // The stamp comes first: a later write changes it again.
    let stamp = stamp(path);
    if before == Some(stamp) {
        return None;
    }
    let mut text = read(path);
    if before.is_some() {
        // The file may be half written. A text counts once two checks agree; they are further apart than a tick of the file
        // system's clock, so that a second write within the same tick is noticed, too.
        for _ in 0..SETTLE_LOOKS {
            std::thread::sleep(SETTLE);
            let again = read(path);
            if again == text {
                break;
            }
            text = again;
        }
    }
    Some(Seen { stamp, text })
}

fn stamp(path: &Path) -> Option<Stamp> {
    let meta = fs::metadata(path).ok()?;
    // The time of change, not of modification: tools that copy files often preserve the modification time.
    Some((
        meta.dev(),
        meta.ino(),
        meta.len(),
        meta.ctime(),
        meta.ctime_nsec(),
    ))
}

/// The polling interval, which appears immediate to people.
const POLL: Duration = Duration::from_millis(100);

/// The pause between two checks: longer than a tick (at most 10 ms) and than an editor's pause between two writes.
const SETTLE: Duration = Duration::from_millis(20);

/// The most checks of a file that is being written, before it is used as it is.
const SETTLE_LOOKS: usize = 25;
