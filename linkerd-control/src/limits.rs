/// Bounds of a controller's memory.
#[derive(Clone, Debug)]
pub struct ControllerLimits {
    /// Concurrent connections; more wait in the listener's backlog. A proxy needs one or two.
    pub connections: usize,
    /// HTTP/2 streams of one connection. hyper's default of 200 would stall a proxy with more than 200 targets,
    /// because watches never end.
    pub streams_per_connection: u32,
    /// Open watches of each kind of look-up; more are answered with `RESOURCE_EXHAUSTED`.
    pub streams: usize,
    /// Raw messages queued for one slow stream; one more ends the stream with `RESOURCE_EXHAUSTED`.
    pub queued_messages: usize,
    /// Look-ups that are recorded; the oldest are dropped.
    pub recorded_lookups: usize,
}

impl Default for ControllerLimits {
    fn default() -> Self {
        Self {
            connections: 1024,
            streams_per_connection: 10_000,
            streams: 100_000,
            queued_messages: 64,
            recorded_lookups: 10_000,
        }
    }
}
