use super::*;
use proptest::prelude::*;

/// A frame of a test: its kind, flags, stream and payload.
pub(in crate::http::merged) type Frame = (u8, u8, u32, Vec<u8>);

/// The bytes of frames.
pub(in crate::http::merged) fn encode(frames: &[Frame]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, flags, stream, payload) in frames {
        bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
        bytes.extend_from_slice(&[*kind, *flags]);
        bytes.extend_from_slice(&stream.to_be_bytes());
        bytes.extend_from_slice(payload);
    }
    bytes
}

/// The frames of these bytes.
pub(in crate::http::merged) fn decode(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let Some(header) = Header::read(bytes) {
        let end = HEADER + header.len;
        let payload = bytes[HEADER..end].to_vec();
        frames.push((header.kind, header.flags, header.stream, payload));
        bytes = &bytes[end..];
    }
    assert!(bytes.is_empty());
    frames
}

/// The frames of one stream, with all data between two other frames as one.
pub(in crate::http::merged) fn of_stream(frames: &[Frame], stream: u32) -> Vec<Frame> {
    let mut seen: Vec<Frame> = Vec::new();
    for frame in frames.iter().filter(|frame| frame.2 == stream) {
        let is_data = |frame: &Frame| frame.0 == DATA && frame.1 & PADDED == 0 && stream != 0;
        match seen.last_mut() {
            _ if is_data(frame) && frame.1 == 0 && frame.3.is_empty() => {}
            Some(last) if is_data(last) && last.1 == 0 && is_data(frame) => {
                last.1 = frame.1;
                last.3.extend_from_slice(&frame.3);
            }
            _ => seen.push(frame.clone()),
        }
    }
    seen
}

fn merged(frames: &[Frame]) -> Vec<Frame> {
    decode(&rewrite(&encode(frames)))
}

/// The frames that pass when they were read at once.
fn passed(frames: &[Frame]) -> Vec<Frame> {
    let mut bytes = encode(frames);
    let Passed { passed, held, .. } = Batches::after(0).merge(&mut bytes);
    assert_eq!(held, 0);
    decode(&bytes[..passed])
}

fn data(stream: u32, text: &str) -> Frame {
    (DATA, 0, stream, text.as_bytes().to_vec())
}

fn end(mut frame: Frame) -> Frame {
    frame.1 = END_STREAM;
    frame
}

#[test]
fn small_frames_of_a_stream_become_one() {
    let frames = merged(&[data(1, "a"), data(1, "b"), end(data(1, "c"))]);
    assert_eq!(frames, [end(data(1, "abc"))]);
}

#[test]
fn frames_of_streams_that_take_turns_are_merged() {
    let frames = [data(1, "a"), data(3, "x"), data(1, "b"), data(3, "y")];
    assert_eq!(merged(&frames), [data(1, "ab"), data(3, "xy")]);
}

#[test]
fn empty_frames_are_dropped_but_for_the_end_of_a_stream() {
    let frames = [data(1, ""), data(3, "a"), data(1, ""), end(data(1, ""))];
    assert_eq!(merged(&frames), [data(3, "a"), end(data(1, ""))]);
}

#[test]
fn data_come_before_trailers_and_resets_of_their_stream() {
    let trailers = (HEADERS, END_HEADERS | END_STREAM, 1, vec![7]);
    let reset = (3, 0, 3, vec![0, 0, 0, 8]);
    let frames = [
        data(1, "a"),
        data(3, "x"),
        data(1, "b"),
        trailers.clone(),
        data(3, "y"),
        reset.clone(),
    ];
    assert_eq!(
        merged(&frames),
        [data(1, "ab"), trailers, data(3, "xy"), reset]
    );
}

#[test]
fn data_after_the_end_of_a_stream_stay_an_error() {
    let frames = [data(1, "a"), end(data(1, "b")), data(1, "c")];
    assert_eq!(merged(&frames), [end(data(1, "ab")), data(1, "c")]);
}

#[test]
fn nothing_is_moved_into_or_out_of_a_block_of_fields() {
    let begun = (HEADERS, 0, 1, vec![7]);
    let many = std::iter::repeat_n(data(3, "x"), 2 * MANY);
    let frames: Vec<_> = std::iter::once(begun).chain(many).collect();
    assert_eq!(passed(&frames), frames);
}

#[test]
fn many_small_frames_or_an_empty_one_are_worth_a_copy() {
    let frames = vec![data(1, "x"); MANY];
    assert_eq!(passed(&frames), frames);
    assert_eq!(passed(&vec![data(1, "x"); MANY + 1]).len(), 1);
    assert_eq!(passed(&[data(1, ""), data(1, "x")]), [data(1, "x")]);
    let ended = [data(1, "x"), end(data(1, ""))];
    assert_eq!(passed(&ended), ended);
}

#[test]
fn padding_and_the_connections_own_stream_are_left_alone() {
    let padded = (DATA, PADDED, 1, vec![0]);
    let frames = [padded.clone(), padded, data(0, "x"), data(0, "x")];
    assert_eq!(merged(&frames), frames);
}

#[test]
fn a_merged_frame_is_no_larger_than_a_peer_may_send() {
    let frames: Vec<_> = (0..200).map(|_| data(1, &"x".repeat(255))).collect();
    let frames = merged(&frames);
    assert_eq!(frames.len(), 4);
    assert!(frames.iter().all(|frame| frame.3.len() <= MAX_MERGED));
}

/// Frames of a few streams, mostly small DATA.
pub(in crate::http::merged) fn frames() -> impl Strategy<Value = Vec<Frame>> {
    let payload = prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..12),
        1 => prop::collection::vec(any::<u8>(), 200..400),
    ];
    let kind = prop_oneof![6 => Just((DATA, 0)), 1 => Just((DATA, END_STREAM)), 1 => Just((DATA, PADDED)),
        1 => Just((HEADERS, END_HEADERS)), 1 => Just((HEADERS, 0)), 1 => Just((CONTINUATION, END_HEADERS)),
        1 => Just((3, 0)), 1 => Just((8, 0)), 1 => Just((GOAWAY, 0))];
    let frame = (kind, 0..5u32, payload)
        .prop_map(|((kind, flags), stream, payload)| (kind, flags, stream, payload));
    prop::collection::vec(frame, 0..40)
}

proptest! {
    #[test]
    fn each_stream_keeps_its_frames_and_their_order(frames in frames()) {
        let merged = passed(&frames);
        prop_assert!(encode(&merged).len() <= encode(&frames).len());
        for stream in 0..5 {
            prop_assert_eq!(of_stream(&merged, stream), of_stream(&frames, stream));
        }
    }
}
