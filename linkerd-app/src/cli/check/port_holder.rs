//! The process that listens on a port, from `/proc`.

use std::{fmt, fs, path::Path};

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PortHolder {
    /// Its id.
    pub(super) pid: u32,
    /// The name of its program.
    pub(super) name: String,
}

/// The process of this network namespace that listens on a port of TCP; `None` if this user may not see it.
pub(super) fn port_holder(port: u16) -> Option<PortHolder> {
    let sockets: Vec<_> = ["/proc/self/net/tcp", "/proc/self/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| listening_inodes(&table, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    if sockets.is_empty() {
        return None;
    }
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut processes = processes.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        Some((pid, entry.path()))
    });
    processes.find_map(|(pid, path)| {
        let holds = has_descriptor(&path.join("fd"), &sockets);
        holds.then(|| PortHolder {
            pid,
            name: name(&path),
        })
    })
}

impl fmt::Display for PortHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {})", self.name, self.pid)
    }
}

/// The inodes of sockets that listen on a port, in a table of proc(5).
fn listening_inodes(table: &str, port: u16) -> Vec<String> {
    let suffix = format!(":{port:04X}");
    let inode = |line: &str| {
        let mut fields = line.split_whitespace();
        let local = fields.nth(1)?;
        let state = fields.nth(1)?;
        let inode = fields.nth(5)?;
        (local.ends_with(&suffix) && state == LISTEN).then(|| inode.to_owned())
    };
    table.lines().filter_map(inode).collect()
}

fn has_descriptor(descriptors: &Path, sockets: &[String]) -> bool {
    let Ok(descriptors) = fs::read_dir(descriptors) else {
        return false;
    };
    let targets = descriptors
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok());
    let mut targets = targets.filter_map(|target| Some(target.to_str()?.to_owned()));
    targets.any(|target| sockets.contains(&target))
}

fn name(process: &Path) -> String {
    let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
    name.trim().to_owned()
}

/// `TCP_LISTEN` of the kernel.
const LISTEN: &str = "0A";

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn the_holder_of_a_port_is_found_and_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let holder = port_holder(port).unwrap();
        assert_eq!(holder.pid, std::process::id());
        assert!(!holder.name.is_empty());
        drop(listener);
        assert_eq!(port_holder(port), None);
    }

    #[test]
    fn connections_of_the_port_are_left_out() {
        let row = |local: &str, state: &str, inode: u32| {
            format!(
                " 0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 0 0 {inode} 1\n"
            )
        };
        let table = [
            "  sl  local_address rem_address   st\n".to_owned(),
            row("0100007F:105F", "0A", 7),
            row("0100007F:105F", "01", 8),
            row("0100007F:0050", "0A", 9),
        ]
        .concat();
        assert_eq!(listening_inodes(&table, 4191), ["7"]);
    }
}
