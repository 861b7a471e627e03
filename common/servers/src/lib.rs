//! Real servers for tests, each on a free port and in its own temporary folder, stopped when dropped.
//!
//! A missing server fails the test with the command that installs it. Failures are simulated by signals:
//! [`kill`](Redis::kill) sends SIGKILL, [`pause`](Redis::pause) SIGSTOP.

mod process;
mod redis;
mod kafka;

pub use kafka::Kafka;
pub use process::{free_port, wait_for};
pub use redis::Redis;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_answer_and_survive_being_killed() {
        let mut redis = Redis::start();
        assert_eq!(redis.command("SET a 1"), "+OK");
        redis.kill();
        redis.restart();
        assert_eq!(redis.command("GET a"), "$-1");
        let mut kafka = Kafka::start();
        kafka.kill();
        kafka.restart();
    }
}
