/// What bounds a controller's memory.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections that are served at once; more wait in the listener's backlog. A proxy needs one or two.
    pub connections: usize,
    /// HTTP/2 streams of one connection. hyper's default of 200 would stall a proxy with more than 200 targets,
    /// because watches never end.
    pub streams_per_connection: u32,
    /// Watches that are open at once for each kind of lookup; more are answered with `RESOURCE_EXHAUSTED`.
    pub streams: usize,
    /// Raw messages that wait for one slow stream; one more ends the stream with `RESOURCE_EXHAUSTED`.
    pub queued_messages: usize,
    /// Lookups that are remembered; the oldest are forgotten.
    pub recorded_lookups: usize,
}

impl Default for Limits {
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
