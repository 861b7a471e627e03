//! One connection to the server, which never blocks.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::bail;

use crate::http1::Http1;
use crate::http2::Http2;
use crate::rls::Answer;
use crate::settings::{Protocol, Settings};

pub struct Connection {
    stream: TcpStream,
    client: Client,
    input: Vec<u8>,
    output: Vec<u8>,
}

enum Client {
    Http1(Http1),
    Http2(Http2),
}

impl Connection {
    pub fn open(settings: &Settings) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(settings.address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut output = Vec::new();
        let client = match settings.protocol {
            Protocol::Rls => Client::Http2(Http2::new(settings.address.to_string(), &mut output)),
            Protocol::Http => Client::Http1(Http1::new(&settings.denial)),
        };
        Ok(Self { stream, client, input: Vec::new(), output })
    }

    pub fn in_flight(&self) -> usize {
        match &self.client {
            Client::Http1(client) => client.in_flight(),
            Client::Http2(client) => client.in_flight(),
        }
    }

    /// Returns true if the protocol allows one more call.
    pub fn has_room(&self) -> bool {
        match &self.client {
            Client::Http1(client) => client.in_flight() == 0,
            Client::Http2(client) => client.has_room(),
        }
    }

    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    pub fn send(&mut self, request: &[u8], due: u64) {
        match &mut self.client {
            Client::Http1(client) => client.send(request, due, &mut self.output),
            Client::Http2(client) => client.send(request, due, &mut self.output),
        }
    }

    pub fn flush(&mut self) -> anyhow::Result<()> {
        let mut written = 0;
        while written < self.output.len() {
            match self.stream.write(&self.output[written..]) {
                Ok(len) => written += len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        self.output.drain(..written);
        Ok(())
    }

    /// Reads what has arrived, and appends the due instants and answers of its calls.
    pub fn receive(&mut self, buffer: &mut [u8], answered: &mut Vec<(u64, Answer)>) -> anyhow::Result<()> {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => bail!("the server closed a connection"),
                Ok(len) => {
                    self.input.extend(&buffer[..len]);
                    if len < buffer.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        let read = match &mut self.client {
            Client::Http1(client) => client.receive(&self.input, answered),
            Client::Http2(client) if client.is_closing => bail!("the server closes a connection"),
            Client::Http2(client) => client.receive(&self.input, &mut self.output, answered),
        };
        self.input.drain(..read);
        Ok(())
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
