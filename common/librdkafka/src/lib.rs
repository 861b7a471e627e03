//! Correction of a fault of librdkafka 2.12 (<https://github.com/confluentinc/librdkafka/issues/5280>), without a copy of its
//! sources.
//!
//! A broker tells a reader the new leaders of partitions in its answer. A broker that has just started, or that its controller has
//! given up for a moment, knows some leaders and not others. librdkafka leaves out the partitions without a leader, but counts
//! them: the last entries of its list are never written. They contain whatever the memory held before:
//!
//! * With a negative number, librdkafka reads in front of its table, and the process ends with SIGSEGV.
//! * With the number of a partition, the reader takes over an invented leader epoch. The broker rejects that epoch, and the
//!   partition is never read again.
//!
//! The two functions that fill the list are called through this crate, which counts only the entries that are written. A program
//! needs the crate, a call of [`link`], and this line in its `build.rs` (Linux):
//!
//! ```
//! println!(
//!     "cargo::rustc-link-arg-bins=-Wl,--wrap=rd_kafkap_leader_discovery_set_topic,--wrap=rd_kafkap_leader_discovery_set_CurrentLeader"
//! );
//! ```

use std::ffi::{c_char, c_int, c_void};

use rdkafka::bindings as raw;

/// `rd_kafka_Uuid_t` of librdkafka's `rdkafka_proto.h`, which is passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TopicId {
    bits: [i64; 2],
    text: [c_char; 23],
}

unsafe extern "C" {
    fn __real_rd_kafkap_leader_discovery_set_topic(
        buffer: *mut c_void,
        update: *mut raw::rd_kafka_metadata,
        topic: c_int,
        id: TopicId,
        name: *mut c_char,
        partition_count: c_int,
    );
    fn __real_rd_kafkap_leader_discovery_set_CurrentLeader(
        buffer: *mut c_void,
        update: *mut raw::rd_kafka_metadata,
        topic: c_int,
        entry: c_int,
        partition: i32,
        leader: *mut c_void,
    );
}

/// Makes the linker keep the correction. It does nothing else.
pub fn link() {}

/// Called by librdkafka in place of the function of this name without the prefix, which allocates the entries of a topic.
///
/// # Safety
/// As for librdkafka's own function: `update` has been allocated in `buffer`, and has a topic with the index `topic`.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_rd_kafkap_leader_discovery_set_topic(
    buffer: *mut c_void,
    update: *mut raw::rd_kafka_metadata,
    topic: c_int,
    id: TopicId,
    name: *mut c_char,
    partition_count: c_int,
) {
    // SAFETY: the arguments are those of the caller, and the topic exists afterwards.
    unsafe {
        __real_rd_kafkap_leader_discovery_set_topic(buffer, update, topic, id, name, partition_count);
        set_partition_count(update, topic, 0);
    }
}

/// Called by librdkafka in place of the function of this name without the prefix, which writes the next entry of a topic.
///
/// # Safety
/// As for librdkafka's own function: the topic with the index `topic` has more than `entry` allocated entries.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_rd_kafkap_leader_discovery_set_CurrentLeader(
    buffer: *mut c_void,
    update: *mut raw::rd_kafka_metadata,
    topic: c_int,
    entry: c_int,
    partition: i32,
    leader: *mut c_void,
) {
    // SAFETY: the arguments are those of the caller, who writes the entries in their order.
    unsafe {
        __real_rd_kafkap_leader_discovery_set_CurrentLeader(buffer, update, topic, entry, partition, leader);
        set_partition_count(update, topic, entry + 1);
    }
}

/// # Safety
/// `update` has a topic with the index `topic`, and nobody else uses it. librdkafka's own type begins with the public type.
unsafe fn set_partition_count(update: *mut raw::rd_kafka_metadata, topic: c_int, count: c_int) {
    // SAFETY: as the caller guarantees.
    unsafe { (*(*update).topics.offset(topic as isize)).partition_cnt = count };
}
