//! Raw connection of HTTP/2, which sends any bytes, and reads the frames of the server until one of them tells the end.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::requests::{END_WAIT, End};
use crate::wire::{END_STREAM, GO_AWAY, HEADERS, PING, RESET, frame};

/// Contents of the last ping.
const MARK: &[u8] = b"the end.";

/// Sends bytes, and a ping behind them if the connection should stay. Returns the end: of the first stream if one should be reset,
/// else of the connection.
pub(crate) async fn exchange(mut stream: TcpStream, bytes: &[u8], expected: &End) -> End {
    let stays = *expected == End::Alive;
    let is_of_stream = matches!(expected, End::Reset(_));
    let (mut read, mut write) = stream.split();
    let mut bytes = bytes.to_vec();
    if stays {
        bytes.extend(frame(PING, 0, 0, MARK));
    }
    let send = async {
        // The server may have closed before it has read all.
        let _ = write.write_all(&bytes).await;
        std::future::pending().await
    };
    let receive = async {
        while let Some((kind, flags, payload)) = received(&mut read).await {
            let code = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
            match kind {
                GO_AWAY if code(4) > 0 => return End::GoAway(code(4)),
                RESET if is_of_stream => return End::Reset(code(0)),
                HEADERS if is_of_stream => return End::Answered,
                PING if flags == END_STREAM && payload == MARK => return End::Alive,
                _ => {}
            }
        }
        End::Closed
    };
    let end = async {
        tokio::select! {
            end = receive => end,
            end = send => end,
        }
    };
    tokio::time::timeout(END_WAIT, end).await.unwrap_or(End::Silent)
}

/// Reads a frame: its kind, its flags and its payload. Returns none at the end of the connection.
pub(crate) async fn received(read: &mut (impl AsyncReadExt + Unpin)) -> Option<(u8, u8, Vec<u8>)> {
    let mut head = [0; 9];
    read.read_exact(&mut head).await.ok()?;
    let len = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; usize::try_from(len).unwrap()];
    read.read_exact(&mut payload).await.ok()?;
    Some((head[3], head[4], payload))
}
