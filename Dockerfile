# Targets: sidecar (the gate), agent (an example of an agent's image), demo-upstream (an HTTPS service for the demo).
ARG NODE_IMAGE=node:24-bookworm-slim

FROM ${NODE_IMAGE} AS build
WORKDIR /build
COPY package.json package-lock.json ./
# The secret is for machines behind an inspecting proxy. It is gone after the step: no image trusts that proxy.
RUN --mount=type=secret,id=extra_ca \
    if [ -s /run/secrets/extra_ca ]; then export NODE_EXTRA_CA_CERTS=/run/secrets/extra_ca; fi; \
    npm ci --include=dev --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error
COPY tsconfig.json ./
COPY scripts/build.ts scripts/record-code.ts scripts/sample-gate.ts scripts/
COPY src src
RUN node scripts/build.ts

FROM ${NODE_IMAGE} AS sidecar
COPY policies /opt/sallyport/policies
COPY package.json /opt/sallyport/
COPY --from=build /build/dist /opt/sallyport/dist
# A named volume takes the mode of the folder that it is first mounted on. 1777 lets any uid that the operator has write
# there; no volume but `ca` (read-only) is mounted in another container.
RUN ln -s /opt/sallyport/dist/sallyport.js /usr/local/bin/sallyport \
 && mkdir -p /var/lib/sallyport/ca /var/lib/sallyport/ca-key /var/lib/sallyport/audit \
 && chmod 1777 /var/lib/sallyport/ca /var/lib/sallyport/ca-key /var/lib/sallyport/audit
USER 10001:10001
WORKDIR /
ENV NODE_ENV=production \
    MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=131072 MALLOC_TRIM_THRESHOLD_=1048576
# bash opens the socket itself: a Node for each probe would cost more than the sidecar does when idle.
HEALTHCHECK --interval=2s --timeout=3s --start-period=10s --retries=5 \
  CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/7070 && printf 'GET /healthz HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3 && read -r line <&3 && [[ $line == *' 200 '* ]]"]
# A small young generation and a collection after the start; GATE_FLAGS and GATE_ENV of scripts/build.ts, figures in docs/PERFORMANCE.md.
ENTRYPOINT ["node", "--max-semi-space-size=8", "--expose-gc", "/opt/sallyport/dist/sallyport.js"]
CMD ["sidecar"]

FROM ${NODE_IMAGE} AS agent
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates curl git less procps python3 \
 && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --user-group --create-home --shell /bin/bash agent && mkdir /workspace && chown agent:agent /workspace
USER 10001:10001
ENV HOME=/home/agent
WORKDIR /workspace
ENTRYPOINT []
CMD ["sleep", "infinity"]

FROM ${NODE_IMAGE} AS demo-upstream
RUN apt-get update \
 && apt-get install -y --no-install-recommends git openssl \
 && rm -rf /var/lib/apt/lists/*
COPY docker/demo-upstream.mjs /opt/demo/
RUN mkdir -p /var/lib/demo/ca /var/lib/demo/key && chmod 1777 /var/lib/demo/ca /var/lib/demo/key
USER 10001:10001
WORKDIR /
HEALTHCHECK --interval=2s --timeout=3s --start-period=10s --retries=5 CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/443"]
ENTRYPOINT ["node", "/opt/demo/demo-upstream.mjs"]
CMD []
