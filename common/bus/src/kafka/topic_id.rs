//! Topic descriptions from the brokers: id, number of partitions, and the operations that this user may use.
//!
//! Only librdkafka's `DescribeTopics` distinguishes a recreated topic from the old one of the same name, and it never
//! creates a topic. rdkafka has no safe wrapper for it, so this is the crate's only file with unsafe code: it owns
//! librdkafka's objects in guards, copies numbers out of them, and exposes nothing else.

use std::ffi::{CString, c_char};
use std::time::Duration;

use rdkafka::bindings as raw;
use rdkafka::client::{Client, ClientContext};
use rdkafka::error::{IsError, RDKafkaErrorCode as Code};

use tollgate_core::messages::signals::LogId;

/// Additional wait for the response after the request's own timeout. librdkafka always responds, at the latest with
/// "timed out".
const RESPONSE_GRACE: Duration = Duration::from_millis(500);

/// Topic as the brokers describe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TopicDescription {
    /// Topic id, folded to 64 bits.
    pub(super) id: LogId,
    pub(super) partitions: usize,
    /// One bit for each operation of an ACL that this user may use, by its number.
    operations: u32,
}

/// Topic as this user finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FoundTopic {
    /// There is none.
    Missing,
    /// This user may not know whether there is one.
    Hidden,
    Shown(TopicDescription),
}

/// Operation on a topic, as ACLs of Kafka name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TopicOperation {
    Read,
    Write,
    Create,
    Describe,
    DescribeConfigs,
}

impl TopicOperation {
    pub(super) const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Create, Self::Describe, Self::DescribeConfigs];

    /// Returns the name in `kafka-acls.sh`.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Read => "Read",
            Self::Write => "Write",
            Self::Create => "Create",
            Self::Describe => "Describe",
            Self::DescribeConfigs => "DescribeConfigs",
        }
    }

    const fn bit(self) -> u32 {
        let operation = match self {
            Self::Read => raw::rd_kafka_AclOperation_t::RD_KAFKA_ACL_OPERATION_READ,
            Self::Write => raw::rd_kafka_AclOperation_t::RD_KAFKA_ACL_OPERATION_WRITE,
            Self::Create => raw::rd_kafka_AclOperation_t::RD_KAFKA_ACL_OPERATION_CREATE,
            Self::Describe => raw::rd_kafka_AclOperation_t::RD_KAFKA_ACL_OPERATION_DESCRIBE,
            Self::DescribeConfigs => raw::rd_kafka_AclOperation_t::RD_KAFKA_ACL_OPERATION_DESCRIBE_CONFIGS,
        };
        1 << operation as u32
    }
}

impl TopicDescription {
    /// Returns true if this user may use an operation. Brokers that do not tell permit all.
    pub(super) const fn permits(&self, operation: TopicOperation) -> bool {
        self.operations == 0 || self.operations & operation.bit() != 0
    }
}

/// Owned librdkafka object, freed when dropped.
struct NativeHandle<T>(*mut T, unsafe extern "C" fn(*mut T));

impl<T> Drop for NativeHandle<T> {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: every `NativeHandle` is created where librdkafka returned the pointer, together with the function
            // that frees its type, and is neither copied nor freed elsewhere.
            unsafe { (self.1)(self.0) }
        }
    }
}

/// Describes topics, in their order. Waits at most about `wait`.
pub(super) fn describe<C: ClientContext>(
    client: &Client<C>,
    names: Vec<String>,
    wait: Duration,
) -> Result<Vec<FoundTopic>, Code> {
    let names = names.into_iter().map(CString::new).collect::<Result<Vec<_>, _>>().map_err(|_| Code::InvalidTopic)?;
    let event = request(client, &names, wait)?;
    // SAFETY: the event is not null (checked in `request`) and lives until the end of this function. Its error is a
    // plain number.
    let error = unsafe { raw::rd_kafka_event_error(event.0) };
    if error.is_error() {
        return Err(error.into());
    }
    let mut count = 0;
    // SAFETY: the event lives. A null result means that the event has another type, and is not dereferenced. The array
    // belongs to the event and has `count` elements.
    let topics = unsafe {
        let result = raw::rd_kafka_event_DescribeTopics_result(event.0);
        if result.is_null() {
            return Err(Code::Fail);
        }
        let array = raw::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
        if array.is_null() { &[] } else { std::slice::from_raw_parts(array, count) }
    };
    let found: Vec<_> = topics.iter().map(|topic| read_description(*topic)).collect::<Result<_, _>>()?;
    if found.len() == names.len() { Ok(found) } else { Err(Code::Fail) }
}

/// Sends the request and returns the response event, which is not null.
fn request<C: ClientContext>(
    client: &Client<C>,
    names: &[CString],
    wait: Duration,
) -> Result<NativeHandle<raw::rd_kafka_event_t>, Code> {
    let mut names: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
    let wait_ms = |wait: Duration| i32::try_from(wait.as_millis()).unwrap_or(i32::MAX).max(1);
    let mut problem: [c_char; 256] = [0; 256];
    // SAFETY: the client is borrowed, so its pointer is valid in this block. The names are C strings that outlive the
    // call, which copies them. The collection, options and queue are freed by their guards after `DescribeTopics`,
    // which copies the first two and holds its own reference to the queue. `problem` has the length that is passed with
    // it.
    unsafe {
        let client = client.native_ptr();
        let topics = raw::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), names.len());
        let topics = NativeHandle(topics, raw::rd_kafka_TopicCollection_destroy);
        let operation = raw::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
        let options =
            NativeHandle(raw::rd_kafka_AdminOptions_new(client, operation), raw::rd_kafka_AdminOptions_destroy);
        let queue = NativeHandle(raw::rd_kafka_queue_new(client), raw::rd_kafka_queue_destroy);
        if topics.0.is_null() || options.0.is_null() || queue.0.is_null() {
            return Err(Code::Fail);
        }
        let (text, len) = (problem.as_mut_ptr(), problem.len());
        let error = raw::rd_kafka_AdminOptions_set_request_timeout(options.0, wait_ms(wait), text, len);
        if error.is_error() {
            return Err(error.into());
        }
        let error = raw::rd_kafka_AdminOptions_set_include_authorized_operations(options.0, 1);
        if !error.is_null() {
            raw::rd_kafka_error_destroy(error);
            return Err(Code::Fail);
        }
        raw::rd_kafka_DescribeTopics(client, topics.0, options.0, queue.0);
        let event = raw::rd_kafka_queue_poll(queue.0, wait_ms(wait + RESPONSE_GRACE));
        if event.is_null() {
            return Err(Code::OperationTimedOut);
        }
        Ok(NativeHandle(event, raw::rd_kafka_event_destroy))
    }
}

fn read_description(topic: *const raw::rd_kafka_TopicDescription_t) -> Result<FoundTopic, Code> {
    // SAFETY: the caller took the description from an event that it still holds, and librdkafka's array contains no
    // null. The error, the id, the operations and the number of partitions belong to the description; only numbers leave
    // this block.
    unsafe {
        let error = raw::rd_kafka_error_code(raw::rd_kafka_TopicDescription_error(topic));
        if error == raw::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART {
            return Ok(FoundTopic::Missing);
        }
        if error == raw::rd_kafka_resp_err_t::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED {
            return Ok(FoundTopic::Hidden);
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
        let mut count = 0;
        let operations = raw::rd_kafka_TopicDescription_authorized_operations(topic, &raw mut count);
        let operations = if operations.is_null() { &[] } else { std::slice::from_raw_parts(operations, count) };
        let operations = operations.iter().fold(0, |bits, operation| bits | 1 << *operation as u32);
        let id = (high ^ low).cast_unsigned();
        Ok(FoundTopic::Shown(TopicDescription { id, partitions, operations }))
    }
}
