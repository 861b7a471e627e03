//! The connection to a Redis: one socket at a time, replaced when it breaks, on which all requests are pipelined.
//! Only [`RedisConnection::ping`] connects, each attempt in a task of its own ([`attempt`]), because a pinging caller gives up long before
//! a distant server could answer. While an attempt is in progress, before the first one, and after the loss of a socket, nothing says
//! that the server cannot be reached: [`RedisConnection::awaited_socket`] waits for the end of the attempt.
//! A server that is no primary any more keeps its sockets, too, and refuses all requests. Its socket is given up, and the next one
//! resolves the name again, after a pause that grows while it leads to such a server.
//! A stopped server keeps its sockets and answers all when it continues, so a silent socket is kept until another one answers.

mod socket;
mod attempt;
mod server_stream;
mod capped_stream;
mod dialer;
mod primary;
mod sentinel_link;
mod sentinels;
mod search;
mod any_node;
mod current_socket;
mod redirects;
mod server_connection;
mod requests;
#[cfg(test)]
mod tests;

pub(crate) use any_node::ask_nodes;
pub(crate) use dialer::Dialer;
pub(crate) use redirects::Redirects;
pub use requests::ServerWay;
pub(crate) use search::MemberAddress;
pub use server_connection::RedisConnection;
pub use socket::Socket;
