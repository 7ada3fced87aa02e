# Images of agents, one target a harness: plain, claude, codex, gemini, opencode, copilot.
#
#   docker build --file docker/agent.Dockerfile --target claude --tag sallyport/agent-claude:0.1.0 .
#
# Any image works as an agent's; these have the harness in them, so that the jail needs no way to a package registry. The
# versions are pinned below: another one is --build-arg CLAUDE_VERSION=….
ARG NODE_IMAGE=node:24-bookworm-slim
ARG CLAUDE_VERSION=2.1.330
ARG CODEX_VERSION=0.169.0
ARG GEMINI_VERSION=0.61.0
ARG OPENCODE_VERSION=1.18.33
ARG COPILOT_VERSION=1.0.102

# The same steps as target agent of the Dockerfile beside it: both share their layers.
FROM ${NODE_IMAGE} AS plain
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates curl git less procps python3 \
 && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --user-group --create-home --shell /bin/bash agent && mkdir /workspace && chown agent:agent /workspace
USER 10001:10001
ENV HOME=/home/agent
WORKDIR /workspace
ENTRYPOINT []
CMD ["sleep", "infinity"]

# No script of a package runs here: what the packages' own install scripts do (put the native program in its place) is done below.
# The secret is for machines behind an inspecting proxy. It is gone after the step.
FROM ${NODE_IMAGE} AS installer
WORKDIR /opt/harness
RUN printf '{"private":true}\n' > package.json \
 && printf '%s\n' '#!/bin/sh' 'set -eu' \
      'if [ -s /run/secrets/extra_ca ]; then export NODE_EXTRA_CA_CERTS=/run/secrets/extra_ca; fi' \
      'npm install --ignore-scripts --no-audit --no-fund --no-update-notifier --no-package-lock --loglevel=error "$1"' \
      'rm -rf "$HOME/.npm"' > /usr/local/bin/install-harness \
 && chmod +x /usr/local/bin/install-harness

FROM installer AS claude-package
ARG CLAUDE_VERSION
RUN --mount=type=secret,id=extra_ca install-harness "@anthropic-ai/claude-code@${CLAUDE_VERSION}" \
 && mv node_modules/@anthropic-ai/claude-code-linux-*/claude . \
 && rm -rf node_modules

FROM installer AS codex-package
ARG CODEX_VERSION
# Its voice needs a sound card, which no agent has.
RUN --mount=type=secret,id=extra_ca install-harness "@openai/codex@${CODEX_VERSION}" \
 && rm -rf node_modules/@openai/codex-linux-*/vendor/*/codex-resources/voice

FROM installer AS gemini-package
ARG GEMINI_VERSION
RUN --mount=type=secret,id=extra_ca install-harness "@google/gemini-cli@${GEMINI_VERSION}"

FROM installer AS opencode-package
ARG OPENCODE_VERSION
# Of two builds the one that runs on processors without AVX2 as well.
RUN --mount=type=secret,id=extra_ca install-harness "opencode-ai@${OPENCODE_VERSION}" \
 && program=$(ls node_modules/opencode-linux-*-baseline/bin/opencode 2>/dev/null || ls node_modules/opencode-linux-*/bin/opencode) \
 && mv "$program" . \
 && rm -rf node_modules

FROM installer AS copilot-package
ARG COPILOT_VERSION
RUN --mount=type=secret,id=extra_ca install-harness "@github/copilot@${COPILOT_VERSION}" \
 && mv node_modules/@github/copilot-linux-*/copilot . \
 && rm -rf node_modules

FROM plain AS claude
COPY --from=claude-package /opt/harness/claude /usr/local/bin/claude

FROM plain AS codex
COPY --from=codex-package /opt/harness/node_modules /opt/harness/node_modules
USER 0:0
RUN ln -s /opt/harness/node_modules/@openai/codex/bin/codex.js /usr/local/bin/codex
USER 10001:10001

FROM plain AS gemini
COPY --from=gemini-package /opt/harness/node_modules /opt/harness/node_modules
USER 0:0
RUN ln -s /opt/harness/node_modules/@google/gemini-cli/bundle/gemini.js /usr/local/bin/gemini
USER 10001:10001

FROM plain AS opencode
COPY --from=opencode-package /opt/harness/opencode /usr/local/bin/opencode

FROM plain AS copilot
COPY --from=copilot-package /opt/harness/copilot /usr/local/bin/copilot
