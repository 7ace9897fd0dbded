//! The open connections of a listener.

use super::SocketRef;
use std::task::Waker;

/// The open connections of a listener, by number.
///
/// - **Bounds**: file descriptors. The memory of many connections is freed when the last one has ended.
#[derive(Debug, Default)]
pub(super) struct OpenConnections {
    open: Vec<OpenConnection>,
    /// Numbers that are free for another connection.
    free: Vec<usize>,
}

/// The means to end a connection.
#[derive(Debug, Default)]
pub(super) struct OpenConnection {
    /// The task that serves the connection.
    task: Option<Waker>,
    /// The client's socket.
    socket: Option<SocketRef>,
}

impl OpenConnections {
    /// Adds a connection. Returns its number.
    pub(super) fn add(&mut self) -> usize {
        if let Some(number) = self.free.pop() {
            return number;
        }
        self.open.push(OpenConnection::default());
        self.open.len() - 1
    }

    /// Removes a connection that has ended. The result refers to a task, and must be dropped only after the borrow of these
    /// connections has ended.
    pub(super) fn remove(&mut self, number: usize) -> OpenConnection {
        let ended = std::mem::take(&mut self.open[number]);
        self.free.push(number);
        if self.count() == 0 && self.open.len() > KEPT {
            *self = Self::default();
        }
        ended
    }

    /// The number of connections.
    pub(super) fn count(&self) -> usize {
        self.open.len() - self.free.len()
    }

    /// Sets the task that serves a connection.
    pub(super) fn set_task(&mut self, number: usize, task: Waker) {
        self.open[number].task = Some(task);
    }

    /// Sets the client's socket of a connection.
    pub(super) fn set_socket(&mut self, number: usize, socket: Option<SocketRef>) {
        self.open[number].socket = socket;
    }

    /// Makes the connections end with a reset, and wakes their tasks.
    pub(super) fn cut_off(&self) {
        for connection in &self.open {
            if let Some(socket) = &connection.socket {
                socket.reset_on_drop();
            }
            if let Some(task) = &connection.task {
                task.wake_by_ref();
            }
        }
    }
}

/// Connections whose memory is kept while none is open: most listeners have fewer, and new memory costs an allocation.
const KEPT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again_and_room_is_given_back() {
        let mut open = OpenConnections::default();
        let numbers: Vec<_> = (0..=KEPT).map(|_| open.add()).collect();
        assert_eq!(open.count(), KEPT + 1);
        open.remove(3);
        assert_eq!((open.count(), open.add()), (KEPT, 3));
        for number in numbers {
            open.remove(number);
        }
        assert_eq!((open.count(), open.open.capacity()), (0, 0));
        assert_eq!(open.add(), 0);
    }
}
