use crate::content::StreamContent;
use crate::stream::StreamBuffer;
use crate::target::TargetKey;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tonic::Status;

/// All targets of one kind: content, behaviour and open streams.
pub(crate) struct TargetTable<C: StreamContent> {
    entries: HashMap<String, Entry<C>>,
    /// Content and behaviour of targets without their own.
    any: Entry<C>,
    /// The names in the mesh file, for answers to unknown targets.
    pub(crate) names: Vec<String>,
    open: usize,
    max_streams: usize,
    max_queued: usize,
}

/// Behaviour of a target; its own, if set, overrides that of all targets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Behaviour {
    pub(crate) delay: Duration,
    pub(crate) silent: bool,
    pub(crate) fail: Option<Failure>,
}

#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    /// Whether the failure is for the next lookup only.
    pub(crate) once: bool,
}

impl Behaviour {
    fn is_default(&self) -> bool {
        self.delay.is_zero() && !self.silent && self.fail.is_none()
    }
}

struct Entry<C: StreamContent> {
    /// Shared by all names of a service and by the streams that show it.
    content: Option<Arc<C>>,
    behaviour: Behaviour,
    streams: Vec<Arc<StreamBuffer<C>>>,
}

impl<C: StreamContent> TargetTable<C> {
    pub(crate) fn new(max_streams: usize, max_queued: usize) -> Self {
        Self {
            entries: HashMap::new(),
            any: Entry::default(),
            names: Vec::new(),
            open: 0,
            max_streams,
            max_queued,
        }
    }

    /// The delay of the target's next look-up.
    pub(crate) fn delay(&self, target: &str) -> Duration {
        let own = self.entries.get(target).map(|e| e.behaviour.delay);
        own.filter(|delay| !delay.is_zero())
            .unwrap_or(self.any.behaviour.delay)
    }

    /// Opens a stream, which gets the current state first, unless the target is scripted to fail.
    pub(crate) fn open(&mut self, target: &str) -> Result<Arc<StreamBuffer<C>>, Status> {
        if let Some(status) = self.failure(target) {
            self.evict(target);
            return Err(status);
        }
        if self.open >= self.max_streams {
            return Err(Status::resource_exhausted("too many streams are open"));
        }
        let buffer = Arc::new(StreamBuffer::new(self.max_queued));
        if !self.silent(target)
            && let Some(content) = self.answer(target)?
        {
            buffer.show(content);
        }
        let entry = self.entries.entry(target.to_owned()).or_default();
        entry.streams.push(buffer.clone());
        self.open += 1;
        Ok(buffer)
    }

    /// Removes a stream, unless a script has removed it already.
    pub(crate) fn close(&mut self, target: &str, buffer: &Arc<StreamBuffer<C>>) {
        if let Some(entry) = self.entries.get_mut(target) {
            let before = entry.streams.len();
            entry.streams.retain(|other| !Arc::ptr_eq(other, buffer));
            self.open -= before - entry.streams.len();
        }
        self.evict(target);
    }

    pub(crate) fn content(&self, key: &TargetKey) -> Option<&Arc<C>> {
        match key {
            TargetKey::One(target) => self.entries.get(target)?.content.as_ref(),
            TargetKey::Any => self.any.content.as_ref(),
        }
    }

    /// Sets a target's content (`None`: unknown) and updates its streams.
    pub(crate) fn set(&mut self, key: &TargetKey, content: Option<Arc<C>>) {
        self.entry(key).content = content;
        self.show(key);
    }

    /// Changes a target's behaviour; state withheld by silence is sent.
    pub(crate) fn behave(&mut self, key: &TargetKey, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.entry(key).behaviour);
        self.show(key);
    }

    /// Removes the target's own behaviour.
    pub(crate) fn restore(&mut self, key: &TargetKey) {
        self.entry(key).behaviour = Behaviour::default();
        self.show(key);
    }

    /// Sends a raw message to the open streams of a target.
    pub(crate) fn send(&mut self, key: &TargetKey, message: &C::Message) -> usize {
        let mut sent = 0;
        for target in self.affected(key) {
            if let Some(entry) = self.entries.get_mut(&target) {
                let before = entry.streams.len();
                entry.streams.retain(|stream| stream.send(message.clone()));
                self.open -= before - entry.streams.len();
                sent += entry.streams.len();
            }
        }
        sent
    }

    /// Ends the streams of a target, cleanly if there is no status.
    pub(crate) fn drop_streams(&mut self, key: &TargetKey, status: Option<&Status>) -> usize {
        let mut dropped = 0;
        for target in self.affected(key) {
            if let Some(entry) = self.entries.get_mut(&target) {
                for stream in entry.streams.drain(..) {
                    stream.end(status.cloned());
                    dropped += 1;
                }
            }
            self.evict(&target);
        }
        self.open -= dropped;
        dropped
    }

    pub(crate) fn open_streams(&self, key: &TargetKey) -> usize {
        match key {
            TargetKey::One(target) => self.entries.get(target).map_or(0, |e| e.streams.len()),
            TargetKey::Any => self.open,
        }
    }

    /// Sends the current state to the streams of a target.
    fn show(&mut self, key: &TargetKey) {
        for target in self.affected(key) {
            if self.silent(&target) {
                continue;
            }
            let answer = self.answer(&target);
            if let Some(entry) = self.entries.get_mut(&target) {
                match answer {
                    Ok(None) => {}
                    Ok(Some(content)) => {
                        for stream in &entry.streams {
                            stream.show(content.clone());
                        }
                    }
                    Err(status) => {
                        self.open -= entry.streams.len();
                        for stream in entry.streams.drain(..) {
                            stream.end(Some(status.clone()));
                        }
                    }
                }
            }
            self.evict(&target);
        }
    }

    fn answer(&self, target: &str) -> Result<Option<Arc<C>>, Status> {
        let own = self.entries.get(target).and_then(|e| e.content.as_ref());
        match own.or(self.any.content.as_ref()) {
            Some(content) => Ok(Some(content.clone())),
            None => Ok(C::unknown(target, &self.names)?.map(Arc::new)),
        }
    }

    fn silent(&self, target: &str) -> bool {
        let own = self.entries.get(target).is_some_and(|e| e.behaviour.silent);
        own || self.any.behaviour.silent
    }

    fn failure(&mut self, target: &str) -> Option<Status> {
        let own = self.entries.get_mut(target).map(|e| &mut e.behaviour.fail);
        let fail = own
            .filter(|fail| fail.is_some())
            .unwrap_or(&mut self.any.behaviour.fail);
        let failure = fail.clone()?;
        if failure.once {
            *fail = None;
        }
        Some(failure.status)
    }

    fn entry(&mut self, key: &TargetKey) -> &mut Entry<C> {
        match key {
            TargetKey::One(target) => self.entries.entry(target.clone()).or_default(),
            TargetKey::Any => &mut self.any,
        }
    }

    fn affected(&self, key: &TargetKey) -> HashSet<String> {
        match key {
            TargetKey::One(target) => HashSet::from([target.clone()]),
            TargetKey::Any => self.entries.keys().cloned().collect(),
        }
    }

    fn evict(&mut self, target: &str) {
        let unused = self.entries.get(target).is_some_and(|entry| {
            entry.content.is_none() && entry.behaviour.is_default() && entry.streams.is_empty()
        });
        if unused {
            self.entries.remove(target);
        }
    }
}

impl<C: StreamContent> Default for Entry<C> {
    fn default() -> Self {
        Self {
            content: None,
            behaviour: Behaviour::default(),
            streams: Vec::new(),
        }
    }
}
