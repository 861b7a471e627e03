//! Correction of a crash of librdkafka 2.12 (<https://github.com/confluentinc/librdkafka/issues/5280>), without a copy of its
//! sources.
//!
//! A broker tells a reader the new leaders of partitions in its answer. A broker that has just started, or that its controller has
//! given up for a moment, knows some leaders and not others. librdkafka leaves out the partitions without a leader, but counts
//! them: the last entries of its list are never written. If such an entry has a negative number by chance, librdkafka reads in front
//! of its table, and the process ends with SIGSEGV.
//!
//! The function that reads the list is called through this crate, which replaces negative numbers by one that no topic has.
//! librdkafka skips such an entry. A program needs the crate, a call of [`link`], and this line in its `build.rs` (Linux):
//!
//! ```
//! println!("cargo::rustc-link-arg-bins=-Wl,--wrap=rd_kafka_metadata_update_op");
//! ```

use std::ffi::c_int;

use rdkafka::bindings as raw;

/// Number that no partition has.
const NO_PARTITION: i32 = i32::MAX;

unsafe extern "C" {
    fn __real_rd_kafka_metadata_update_op(client: *mut raw::rd_kafka_t, update: *mut raw::rd_kafka_metadata) -> c_int;
}

/// Makes the linker keep the correction. It does nothing else.
pub fn link() {}

/// Called by librdkafka in place of the function of this name without the prefix.
///
/// # Safety
/// `update` points to an update of metadata, which nobody else uses. librdkafka's own type begins with the public type.
#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_rd_kafka_metadata_update_op(
    client: *mut raw::rd_kafka_t,
    update: *mut raw::rd_kafka_metadata,
) -> c_int {
    // SAFETY: the update and its arrays belong to this call, and the counts are those of the allocated arrays.
    unsafe {
        for topic in entries((*update).topics, (*update).topic_cnt) {
            for partition in entries(topic.partitions, topic.partition_cnt) {
                if partition.id < 0 {
                    partition.id = NO_PARTITION;
                }
            }
        }
        __real_rd_kafka_metadata_update_op(client, update)
    }
}

/// # Safety
/// `first` is null, or points to so many entries that live as long as the update, and that nobody else uses.
unsafe fn entries<'a, T>(first: *mut T, count: c_int) -> &'a mut [T] {
    let count = usize::try_from(count).unwrap_or_default();
    // SAFETY: as the caller guarantees.
    if first.is_null() { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(first, count) } }
}
