use super::batch::tests::{decode, encode, frames, of_stream};
use super::*;
use proptest::prelude::*;
use tokio::io::AsyncReadExt;

/// Reads all that comes in pieces of these sizes, each time into so many bytes of a buffer.
async fn read_all(bytes: &[u8], pieces: &[usize], rooms: &[usize]) -> Vec<u8> {
    let mut io = tokio_test::io::Builder::new();
    let (mut rest, mut sizes) = (bytes, pieces.iter().cycle());
    while !rest.is_empty() {
        let (piece, more) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
        io.read(piece);
        rest = more;
    }
    let (mut merged, _) = Merged::of_server(io.build());
    let mut read = Vec::new();
    for room in rooms.iter().cycle() {
        let mut buf = vec![0; *room];
        match merged.read(&mut buf).await.unwrap() {
            0 => break,
            len => read.extend_from_slice(&buf[..len]),
        }
    }
    read
}

proptest! {
    #[test]
    fn each_stream_arrives_however_it_is_read(
        frames in frames(),
        pieces in prop::collection::vec(1..700usize, 1..5),
        rooms in prop::collection::vec(1..700usize, 1..5),
    ) {
        let bytes = encode(&frames);
        let read = decode(&tokio_test::block_on(read_all(&bytes, &pieces, &rooms)));
        for stream in 0..5 {
            prop_assert_eq!(of_stream(&read, stream), of_stream(&frames, stream));
        }
    }
}

#[tokio::test]
async fn no_empty_frame_passes_wherever_reads_end() {
    let empty: Vec<_> = (0..20).map(|_| (0, 0, 1, Vec::new())).collect();
    for piece in 1..40 {
        for room in [1, 8, 9, 300] {
            let read = read_all(&encode(&empty), &[piece], &[room]).await;
            assert!(read.is_empty());
        }
    }
}

#[tokio::test]
async fn the_preface_of_a_client_passes() {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let settings = encode(&[(4, 0, 0, Vec::new())]);
    let io = tokio_test::io::Builder::new()
        .read(&[preface, &settings[..]].concat())
        .build();
    let mut read = Vec::new();
    Merged::of_client(io).read_to_end(&mut read).await.unwrap();
    assert_eq!(read, [preface, &settings[..]].concat());
}
