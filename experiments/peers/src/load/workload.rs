//! Requests of all callers, encoded before the measurement, and the draw of a caller by Zipf's law.

use fastrand::Rng;

use crate::rls;
use crate::settings::{Protocol, Settings};

const TENANTS: u32 = 8;

pub struct Workload {
    requests: Vec<Vec<u8>>,
    /// Sums of the weights of the callers up to each one.
    weights: Vec<f64>,
}

impl Workload {
    pub fn new(settings: &Settings) -> Self {
        let requests = (0..settings.keys).map(|caller| request(settings, caller)).collect();
        let weight = |sum: &mut f64, rank: u32| {
            *sum += f64::from(rank).powf(-settings.skew);
            Some(*sum)
        };
        Self { requests, weights: (1..=settings.keys).scan(0.0, weight).collect() }
    }

    pub fn draw(&self, rng: &mut Rng) -> &[u8] {
        let point = rng.f64() * self.weights.last().expect("at least one key");
        let caller = self.weights.partition_point(|sum| *sum <= point);
        &self.requests[caller.min(self.requests.len() - 1)]
    }
}

/// Returns the request of a caller: the message over gRPC, or all of it over HTTP.
fn request(settings: &Settings, caller: u32) -> Vec<u8> {
    let (key, tenant) = (format!("key-{caller:06}"), format!("tenant-{}", caller % TENANTS));
    match settings.protocol {
        Protocol::Rls => {
            let descriptors = [("api_key", &*key), ("tenant", &*tenant)];
            rls::request(&settings.domain, &descriptors[..settings.descriptors.into()])
        }
        Protocol::Http => {
            let body = settings.body.replace("KEY", &key).replace("TENANT", &tenant);
            let (path, address, len) = (&settings.path, settings.address, body.len());
            let head = format!("POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n");
            format!("{head}content-length: {len}\r\n\r\n{body}").into_bytes()
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn callers_follow_the_law_of_zipf() {
        let args = [
            "load",
            "--protocol",
            "http",
            "--address",
            "127.0.0.1:1",
            "--body",
            "KEY TENANT",
            "--keys",
            "1000",
            "--skew",
            "1",
        ];
        let workload = Workload::new(&Settings::parse_from(args));
        let mut rng = Rng::with_seed(1);
        let mut share = |key: &str| {
            let drawn = (0..100_000).filter(|_| workload.draw(&mut rng).ends_with(key.as_bytes())).count();
            f64::from(u32::try_from(drawn).expect("few")) / 100_000.0
        };
        // The sum of 1/rank up to 1,000 is 7.49.
        assert!((share("key-000000 tenant-0") - 0.134).abs() < 0.01);
        assert!((share("key-000001 tenant-1") - 0.067).abs() < 0.01);
    }
}
