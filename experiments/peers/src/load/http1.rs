//! Client side of one HTTP/1.1 connection, with one request at a time.

use crate::rls::Answer;

#[derive(Default)]
pub struct Http1 {
    /// Due instant of the call in flight.
    due: Option<u64>,
    denial: Vec<u8>,
}

impl Http1 {
    pub fn new(denial: &str) -> Self {
        Self { due: None, denial: denial.as_bytes().to_vec() }
    }

    pub fn in_flight(&self) -> usize {
        usize::from(self.due.is_some())
    }

    pub fn send(&mut self, request: &[u8], due: u64, output: &mut Vec<u8>) {
        self.due = Some(due);
        output.extend(request);
    }

    /// Reads a response, if all of it is there. Returns the number of bytes that it has.
    pub fn receive(&mut self, input: &[u8], answered: &mut Vec<(u64, Answer)>) -> usize {
        let Some(head_len) = input.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return 0 };
        let head = String::from_utf8_lossy(&input[..head_len]).to_ascii_lowercase();
        let len = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        let end = head_len + 4 + len.unwrap_or(0);
        let Some(body) = input.get(head_len + 4..end) else { return 0 };
        let is_denial = !self.denial.is_empty() && body.windows(self.denial.len()).any(|part| part == self.denial);
        let answer = match head.get(9..12) {
            Some("429") => Answer::Denied,
            Some("200") if is_denial => Answer::Denied,
            Some("200") => Answer::Allowed,
            _ => Answer::Failed,
        };
        answered.extend(self.due.take().map(|due| (due, answer)));
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_response_is_an_answer() {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
        for (input, expected) in [
            (format!("{head}{{}}"), Some(Answer::Allowed)),
            (format!("{head}no"), Some(Answer::Denied)),
            (format!("{head}n"), None),
            (head[..20].to_owned(), None),
            (head.replace("200", "429") + "{}", Some(Answer::Denied)),
            (head.replace("200", "503") + "no", Some(Answer::Failed)),
        ] {
            let (mut client, mut output, mut answered) = (Http1::new("no"), Vec::new(), Vec::new());
            client.send(b"POST", 7, &mut output);
            let read = client.receive(input.as_bytes(), &mut answered);
            assert_eq!(answered, expected.map(|answer| (7, answer)).into_iter().collect::<Vec<_>>(), "{input}");
            assert_eq!(read, if expected.is_some() { input.len() } else { 0 }, "{input}");
        }
    }
}
