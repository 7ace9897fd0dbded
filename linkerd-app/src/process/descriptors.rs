//! Room for file descriptors, made by a thread that may wait for it.
//!
//! The kernel doubles a process's table of descriptors when it is full, and it never makes it smaller. If the process has
//! several threads, whoever opens the descriptor that does not fit sleeps until all cores have passed a quiescent state
//! (RCU). That was 10 to 25 ms each time, in which a worker served nobody: three times on the way to a thousand
//! connections. There is no moment before there are threads, as the allocator has one from the start.

use rustix::io::fcntl_dupfd_cloexec;
use std::{io, os::fd::AsFd};

/// Makes room for 16,384 descriptors, or for as many as a process of this user may have, and returns for how many. The
/// calling thread waits as described above; others that open descriptors meanwhile do not, while theirs fit.
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
        // More than `ulimit -n` allows. Tables come in powers of two anyway.
        room /= 2;
    }
    LEAST
}

/// Two descriptors for each of 8,000 connections, for 132 KB of the kernel's memory. A proxy that has more waits again,
/// but not often: at 16,384, at 32,768 and so on.
const ROOM: usize = 16 * 1024;

/// What every process has room for from the start.
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
        // Other tests open some, too, but not hundreds.
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
