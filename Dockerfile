# syntax=docker/dockerfile:1
# One image with the one binary. The command selects the role, for instance `agent` or `aggregator`.

# Same Debian release as the final image, so that the libc matches. It contains cc and make, which librdkafka needs.
FROM rust:1-bookworm AS builder
WORKDIR /src
# Only files that the build reads, so that no other change starts a new build.
COPY Cargo.toml Cargo.lock ./
COPY common common
COPY agent agent
COPY aggregator aggregator
COPY experiments experiments
COPY cli cli
# Downloads and compiled crates stay in caches on this machine; the binary is copied out of them for the final image.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target,sharing=locked \
    cargo build --release --locked -p tollgate-cli \
    && cp target/release/tollgate /usr/local/bin/tollgate

FROM debian:bookworm-slim
# A new volume inherits the owner of its folder, so both are writable for the user below.
RUN useradd --system --uid 10001 --user-group --no-create-home tollgate \
    && install -d -o tollgate -g tollgate /var/lib/tollgate /etc/tollgate/keys
COPY --from=builder /usr/local/bin/tollgate /usr/local/bin/tollgate
# Numeric, so that Kubernetes can verify that the user is not root.
USER 10001:10001
# HTTP ports: agent, aggregator.
EXPOSE 8080 8090
ENTRYPOINT ["tollgate"]
