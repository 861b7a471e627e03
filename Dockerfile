# syntax=docker/dockerfile:1
# One image with the one binary: the command says what it is, such as `agent` or `aggregator`.

# The same Debian as below, so that the binary finds the libc it was linked with. It brings cc and make for librdkafka.
FROM rust:1-bookworm AS builder
WORKDIR /src
# Only what the build reads, so that a change of anything else does not build anew.
COPY Cargo.toml Cargo.lock ./
COPY common common
COPY agent agent
COPY aggregator aggregator
COPY experiments experiments
COPY cli cli
# What was downloaded and compiled stays on this machine; the binary must leave the cache to be seen below.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target,sharing=locked \
    cargo build --release --locked -p tollgate-cli \
    && cp target/release/tollgate /usr/local/bin/tollgate

FROM debian:bookworm-slim
# A new volume takes the owner of the folder it is laid over, so these two are writable for the user below.
RUN useradd --system --uid 10001 --user-group --no-create-home tollgate \
    && install -d -o tollgate -g tollgate /var/lib/tollgate /etc/tollgate/keys
COPY --from=builder /usr/local/bin/tollgate /usr/local/bin/tollgate
# By its number, so that Kubernetes can see that it is not root.
USER 10001:10001
# An agent's, and an aggregator's.
EXPOSE 8080 8090
ENTRYPOINT ["tollgate"]
