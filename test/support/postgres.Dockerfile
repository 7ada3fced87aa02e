# PostgreSQL for tests, server and clients. Debian's package makes a server of its own and starts it, unless it is told before not to.
ARG NODE_IMAGE
FROM ${NODE_IMAGE} AS postgres
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates postgresql-common \
 && echo 'create_main_cluster = false' >> /etc/postgresql-common/createcluster.conf \
 && apt-get install -y --no-install-recommends postgresql postgresql-client \
 && rm -rf /var/lib/apt/lists/*
ENTRYPOINT []
