# syntax=docker/dockerfile:1

FROM rust:1.95-bookworm AS build
RUN apt-get update \
    && apt-get install -y --no-install-recommends protobuf-compiler libprotobuf-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/target \
    CARGO_TARGET_DIR=/target cargo build --release --locked --bin lancegate \
    && install -D /target/release/lancegate /out/lancegate

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates curl \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --create-home --home-dir /var/lib/lancegate lancegate
COPY --from=build /out/lancegate /usr/local/bin/lancegate
USER lancegate
VOLUME /var/lib/lancegate
ENV LANCEGATE_DATA=/var/lib/lancegate/data
EXPOSE 5433
# In a container the wire listens on all addresses, and is refused there
# without a decision about plaintext: give it a certificate
# (LANCEGATE_PG__TLS_CERT, LANCEGATE_PG__TLS_KEY), or set
# LANCEGATE_PG__ALLOW_PLAINTEXT=true on a network that you trust. Health and
# metrics stay on the container's loopback, where the check below asks; to reach
# them from outside set LANCEGATE_HTTP__LISTEN and LANCEGATE_HTTP__ALLOW_PLAINTEXT.
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
    CMD curl --fail --silent http://127.0.0.1:10024/readyz || exit 1
ENTRYPOINT ["lancegate"]
CMD ["serve", "--pg-listen", "0.0.0.0:5433"]
