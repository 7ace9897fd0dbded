//! Reserves room for file descriptors on a thread that may wait.
//!
//! The kernel doubles a process's table of descriptors when it is full, and never shrinks it. In a process with several
//! threads, the thread that opens the first descriptor beyond the table sleeps until all cores have passed a quiescent
//! state (RCU). That took 10 to 25 ms each time, during which a worker served no request: three times on the way to a
//! thousand connections. There is no moment before there are threads, as the allocator has one from the start.

use rustix::io::fcntl_dupfd_cloexec;
use std::{io, os::fd::AsFd};

/// Makes room for 16,384 descriptors, or for as many as this user may open; returns the room. The calling thread waits
/// as described above; other threads do not while their descriptors fit.
pub fn reserve() -> usize {
    reserve_for(ROOM)
}

fn reserve_for(mut room: usize) -> usize {
    while room > LEAST {
        // The table has to hold the number of the copy, and stays as it is when the copy is closed.
        let highest = i32::try_from(room - 1).unwrap_or(i32::MAX);
        if fcntl_dupfd_cloexec(io::stderr().as_fd(), highest).is_ok() {
            return room;
        }
        // Above `ulimit -n`. Table sizes are powers of two anyway.
        room /= 2;
    }
    LEAST
}

/// Two descriptors for each of 8,000 connections, in 132 KB of kernel memory. Beyond that the wait returns, but rarely:
/// at 16,384, at 32,768 and so on.
const ROOM: usize = 16 * 1024;

/// Room in every process from the start.
const LEAST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn table() -> usize {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("FDSize:"));
        line.unwrap().trim().parse().unwrap()
    }

    #[test]
    fn the_table_of_descriptors_has_room_and_no_descriptor_stays_open() {
        let open = || fs::read_dir("/proc/self/fd").unwrap().count();
        let before = open();
        let room = reserve();
        assert!(room >= 256 && table() >= room, "{room}, {}", table());
        // Concurrent tests open some, too, but not hundreds.
        assert!(open() < before + 100);
    }

    #[test]
    fn what_is_not_allowed_is_halved_until_it_is() {
        let allowed = super::super::Usage::of_self().max_fds;
        let allowed = usize::try_from(allowed.unwrap_or(u64::MAX)).unwrap();
        let room = reserve_for(2 * allowed.min(1 << 16));
        assert!(room >= 256 && room <= allowed && table() >= room, "{room}");
    }
}
