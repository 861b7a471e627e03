//! What brokers say of a topic: its identity and how many partitions it has.
//!
//! Only librdkafka's `DescribeTopics` tells a topic from another of the same name, and it never makes a topic by asking.
//! rdkafka has no safe form of it, so this is the one file of the crate that is not safe: it owns what it gets from
//! librdkafka in guards, copies numbers out of it, and hands out nothing else.

use std::ffi::{CString, c_char};
use std::time::Duration;

use rdkafka::bindings as raw;
use rdkafka::client::{Client, ClientContext};
use rdkafka::error::{IsError, RDKafkaErrorCode as Code};

use tollgate_core::messages::signals::LogId;

/// How much longer than the request its answer is waited for; librdkafka always answers, if only with "timed out".
const GRACE: Duration = Duration::from_millis(500);

/// A topic as the brokers have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TopicDescription {
    /// Its topic id, folded.
    pub(super) id: LogId,
    pub(super) partitions: usize,
}

/// Frees a thing of librdkafka when it goes out of scope.
struct Owned<T>(*mut T, unsafe extern "C" fn(*mut T));

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: every `Owned` is made right where librdkafka handed the pointer over together with the function
            // that frees its type, and is neither copied nor freed elsewhere.
            unsafe { (self.1)(self.0) }
        }
    }
}

/// Describes topics, in their order; nothing for one that does not exist. Waits at most about so long.
pub(super) fn describe<C: ClientContext>(
    client: &Client<C>,
    names: &[&str],
    wait: Duration,
) -> Result<Vec<Option<TopicDescription>>, Code> {
    let names: Vec<CString> =
        names.iter().map(|name| CString::new(*name)).collect::<Result<_, _>>().map_err(|_| Code::InvalidTopic)?;
    let event = ask(client, &names, wait)?;
    // SAFETY: the event is not null (checked in `ask`), lives until the end of this function, and is asked for its
    // error before anything else; the error is a plain number.
    let error = unsafe { raw::rd_kafka_event_error(event.0) };
    if error.is_error() {
        return Err(error.into());
    }
    let mut count = 0;
    // SAFETY: the event lives; a null result is librdkafka's way to say that it is of another type, and is not followed.
    // The array belongs to the event and has `count` entries.
    let topics = unsafe {
        let result = raw::rd_kafka_event_DescribeTopics_result(event.0);
        if result.is_null() {
            return Err(Code::Fail);
        }
        let array = raw::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
        if array.is_null() { &[] } else { std::slice::from_raw_parts(array, count) }
    };
    topics.iter().map(|topic| look_at(*topic)).collect()
}

/// Sends the question and waits for the answer, which is not null.
fn ask<C: ClientContext>(
    client: &Client<C>,
    names: &[CString],
    wait: Duration,
) -> Result<Owned<raw::rd_kafka_event_t>, Code> {
    let mut names: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
    let wait_ms = |wait: Duration| i32::try_from(wait.as_millis()).unwrap_or(i32::MAX).max(1);
    let mut problem: [c_char; 256] = [0; 256];
    // SAFETY: the client is borrowed, so its pointer lives through this block. The names are C strings that outlive the
    // call that copies them. The collection, options and queue are freed by their guards after `DescribeTopics`, which
    // copies the first two and keeps a reference to the queue itself. `problem` is as long as is said.
    unsafe {
        let client = client.native_ptr();
        let topics = raw::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), names.len());
        let topics = Owned(topics, raw::rd_kafka_TopicCollection_destroy);
        let operation = raw::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
        let options = Owned(raw::rd_kafka_AdminOptions_new(client, operation), raw::rd_kafka_AdminOptions_destroy);
        let queue = Owned(raw::rd_kafka_queue_new(client), raw::rd_kafka_queue_destroy);
        if topics.0.is_null() || options.0.is_null() || queue.0.is_null() {
            return Err(Code::Fail);
        }
        let (text, len) = (problem.as_mut_ptr(), problem.len());
        let error = raw::rd_kafka_AdminOptions_set_request_timeout(options.0, wait_ms(wait), text, len);
        if error.is_error() {
            return Err(error.into());
        }
        raw::rd_kafka_DescribeTopics(client, topics.0, options.0, queue.0);
        let event = raw::rd_kafka_queue_poll(queue.0, wait_ms(wait + GRACE));
        if event.is_null() {
            return Err(Code::OperationTimedOut);
        }
        Ok(Owned(event, raw::rd_kafka_event_destroy))
    }
}

fn look_at(topic: *const raw::rd_kafka_TopicDescription_t) -> Result<Option<TopicDescription>, Code> {
    // SAFETY: the caller took the description out of an event that it still holds, and librdkafka puts no null into the
    // array. The error, the id and the count of partitions belong to it; only numbers leave this block.
    unsafe {
        let error = raw::rd_kafka_error_code(raw::rd_kafka_TopicDescription_error(topic));
        if error == raw::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART {
            return Ok(None);
        }
        if error.is_error() {
            return Err(error.into());
        }
        let mut partitions = 0;
        raw::rd_kafka_TopicDescription_partitions(topic, &raw mut partitions);
        let id = raw::rd_kafka_TopicDescription_topic_id(topic);
        if id.is_null() {
            return Err(Code::Fail);
        }
        let (high, low) = (raw::rd_kafka_Uuid_most_significant_bits(id), raw::rd_kafka_Uuid_least_significant_bits(id));
        Ok(Some(TopicDescription { id: (high ^ low).cast_unsigned(), partitions }))
    }
}
