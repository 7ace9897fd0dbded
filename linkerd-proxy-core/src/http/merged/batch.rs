//! The frames of a read, with small DATA frames merged.

use smallvec::SmallVec;

/// The frames that a peer sends, read by read.
pub(super) struct Batches {
    /// Bytes that pass before the next header: the rest of a frame, or the preface.
    rest: usize,
    /// A block of header fields has begun and not ended: nothing may come between its frames.
    in_fields: bool,
}

/// The outcome of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Passed {
    /// Bytes at the beginning of the batch that pass.
    pub(super) passed: usize,
    /// Bytes at the end of what was read that are the beginning of a header, and are to be passed with its rest.
    pub(super) held: usize,
    /// Small DATA frames among what passes.
    pub(super) small: usize,
    /// The peer's limit of a head, if the batch sets one.
    pub(super) max_head: Option<u32>,
}

impl Batches {
    /// The frames after this many other bytes.
    pub(super) fn after(rest: usize) -> Self {
        Self {
            rest,
            in_fields: false,
        }
    }

    /// Merges the small DATA frames of each stream, where there are several, and drops empty ones. Frames of a stream stay in order.
    pub(super) fn merge(&mut self, batch: &mut [u8]) -> Passed {
        let first = self.rest.min(batch.len());
        self.rest -= first;
        let mut keeps_order = self.in_fields;
        let (mut has_empty, mut more) = (false, 0);
        let (mut small, mut max_head) = (0, None);
        let mut recent = Recent::default();
        let mut at = first;
        while let Some(frame) = Header::read(&batch[at..]) {
            let end = at + HEADER + frame.len;
            small += usize::from(frame.is_small_data());
            // The last frame of a stream does not count for h2.
            if frame.is_small_data() && !frame.ends_stream() && end <= batch.len() {
                has_empty |= frame.is_empty();
                more += usize::from(recent.knows(frame.stream));
            }
            self.in_fields = frame.has_open_fields(self.in_fields);
            keeps_order |= self.in_fields;
            if end > batch.len() {
                self.rest = end - batch.len();
                at = batch.len();
                break;
            }
            if frame.kind == SETTINGS {
                max_head = header_list_limit(&batch[at + HEADER..end]).or(max_head);
            }
            at = end;
        }
        let held = batch.len() - at;
        if (has_empty || more >= MANY) && !keeps_order {
            let merged = rewrite(&batch[first..at]);
            at = first + merged.len();
            batch[first..at].copy_from_slice(&merged);
            small = Header::all(&merged).filter(Header::is_small_data).count();
        }
        Passed {
            passed: at,
            held,
            small,
            max_head,
        }
    }
}

/// SETTINGS_MAX_HEADER_LIST_SIZE (RFC 9113, section 6.5.2) among settings.
fn header_list_limit(settings: &[u8]) -> Option<u32> {
    let mut limits = settings.chunks_exact(6).filter_map(|setting| {
        let (name, value) = setting.split_at(2);
        let value = u32::from_be_bytes(value.try_into().ok()?);
        (name == [0, 6]).then_some(value)
    });
    limits.next_back()
}

/// Merges the frames of a batch.
#[cold]
fn rewrite(batch: &[u8]) -> Vec<u8> {
    let mut merged = Vec::with_capacity(batch.len());
    let mut open: SmallVec<[Open; 8]> = SmallVec::new();
    let mut at = 0;
    for frame in Header::all(batch) {
        let end = at + HEADER + frame.len;
        if end > batch.len() {
            break;
        }
        let payload = &batch[at + HEADER..end];
        // A frame after the end of a stream is an error, which is h2's to find.
        let known = open.iter().position(|open| open.stream == frame.stream);
        match known {
            Some(known) if frame.is_small_data() && !open[known].ends => {
                if open[known].data.len() + payload.len() > MAX_MERGED {
                    open[known].write(&mut merged);
                }
                open[known].push(&frame, payload);
            }
            None if frame.is_small_data() => {
                if open.len() == MAX_OPEN {
                    open.drain(..).for_each(|mut open| open.write(&mut merged));
                }
                if !frame.is_empty() {
                    open.push(Open::new(&frame, payload));
                }
            }
            _ => {
                if frame.kind == GOAWAY {
                    open.drain(..).for_each(|mut open| open.write(&mut merged));
                } else if let Some(known) = known {
                    open.remove(known).write(&mut merged);
                }
                merged.extend_from_slice(&batch[at..end]);
            }
        }
        at = end;
    }
    open.drain(..).for_each(|mut open| open.write(&mut merged));
    // The rest of the last frame was not read yet.
    merged.extend_from_slice(&batch[at..]);
    merged
}

/// DATA of a stream that is being merged.
struct Open {
    stream: u32,
    ends: bool,
    data: Vec<u8>,
}

impl Open {
    fn new(frame: &Header, payload: &[u8]) -> Self {
        Self {
            stream: frame.stream,
            ends: frame.ends_stream(),
            data: payload.to_vec(),
        }
    }

    fn push(&mut self, frame: &Header, payload: &[u8]) {
        self.data.extend_from_slice(payload);
        self.ends = frame.ends_stream();
    }

    /// Moves the data to the end of `out`, as one frame.
    fn write(&mut self, out: &mut Vec<u8>) {
        let len = self.data.len() as u32;
        out.extend_from_slice(&len.to_be_bytes()[1..]);
        out.extend_from_slice(&[DATA, if self.ends { END_STREAM } else { 0 }]);
        out.extend_from_slice(&self.stream.to_be_bytes());
        out.append(&mut self.data);
    }
}

/// The streams of the last few DATA frames.
#[derive(Default)]
struct Recent {
    streams: [u32; 16],
    next: usize,
}

impl Recent {
    /// Whether the stream is among them. It is afterwards.
    fn knows(&mut self, stream: u32) -> bool {
        if self.streams.contains(&stream) {
            return true;
        }
        self.streams[self.next % 16] = stream;
        self.next += 1;
        false
    }
}

/// The header of a frame (RFC 9113, section 4.1).
struct Header {
    len: usize,
    kind: u8,
    flags: u8,
    stream: u32,
}

impl Header {
    fn read(bytes: &[u8]) -> Option<Self> {
        let &[a, b, c, kind, flags, d, e, f, g] = bytes.first_chunk::<HEADER>()?;
        Some(Self {
            len: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            stream: u32::from_be_bytes([d, e, f, g]) & (u32::MAX >> 1),
        })
    }

    /// The headers of frames, of which the last may not be complete.
    fn all(mut bytes: &[u8]) -> impl Iterator<Item = Self> {
        std::iter::from_fn(move || {
            let frame = Self::read(bytes)?;
            bytes = bytes.get(HEADER + frame.len..).unwrap_or_default();
            Some(frame)
        })
    }

    /// Whether the frame is DATA that can be merged: padding counts for flow control, and stays.
    fn is_small_data(&self) -> bool {
        self.kind == DATA && self.flags & PADDED == 0 && self.len < SMALL && self.stream != 0
    }

    /// Whether the frame says nothing.
    fn is_empty(&self) -> bool {
        self.len == 0 && !self.ends_stream()
    }

    fn ends_stream(&self) -> bool {
        self.flags & END_STREAM != 0
    }

    /// Whether a block of header fields is open after this frame.
    fn has_open_fields(&self, was_open: bool) -> bool {
        match self.kind {
            HEADERS | PUSH_PROMISE | CONTINUATION => self.flags & END_HEADERS == 0,
            _ => was_open,
        }
    }
}

/// The length of a frame's header, in bytes.
pub(super) const HEADER: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;

/// The length below which h2 counts a DATA frame as small, in bytes.
pub(in crate::http) const SMALL: usize = 256;

/// Frames of a read beside the first ones of their streams that are worth a copy of all. Fewer are of no concern to h2.
const MANY: usize = 8;

/// The most bytes of a merged frame: the smallest limit that a peer may have (RFC 9113, section 6.5.2).
const MAX_MERGED: usize = 16_384;

/// The most streams whose frames are merged at a time.
const MAX_OPEN: usize = 64;

#[cfg(test)]
pub(super) mod tests;
