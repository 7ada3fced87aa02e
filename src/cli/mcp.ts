import { parseVerb, type Command } from './command.ts'
import { checkServers, listServers, printConfig } from './mcp-list.ts'
import { testServer } from './mcp-test.ts'
import { MCP_USAGES } from './mcp-usages.ts'
import { wrapServer } from './mcp-wrap.ts'

/** `sallyport mcp ls|check|test|config|wrap`. */
export const mcpCommand: Command = {
  summary: 'list, check, try and wrap MCP servers',
  usage: `usage: ${MCP_USAGES.ls}
       ${MCP_USAGES.check}
       ${MCP_USAGES.test}
       ${MCP_USAGES.config}
       ${MCP_USAGES.wrap}

MCP servers of a session are in the policy (mcp_servers), in $SALLYPORT_HOME/mcp.json for all sessions, and in the operator's own
configuration of the session's harness. A secret is written "\${secret:KEY}": its value is never in a file, nor in the agent.

sallyport mcp ls: the servers that a session would have: how, from where, with which secrets by name.
sallyport mcp check: the same, and whether each secret has a value. Needs a running "sallyport daemon".
sallyport mcp test: starts a server as a session would, asks for its tools and ends it: in the session that is named, or in one that is
made for it and removed. Tools that the server's "tools" leaves out are marked.
sallyport mcp config: an .mcp.json for clients that Sallyport does not set up itself. It has no secret: the lease is a variable.
sallyport mcp wrap: for agents without a container of ours: fills references in its own environment with their values and runs CMD.
Weaker than a session: whoever runs as the same user can read the environment of CMD.

  --workspace DIR  the workspace (default: the current folder)
  --harness NAME   claude, codex, gemini, opencode, copilot or cursor
  --policy FILE    policy of the session, over those of the operator; may be given several times
  --role NAME      the role's policy as well
  --session ID     of test: a session that runs
  --name NAME      of wrap: the server that it is, which says what secrets are for it
  --json           one JSON document

Exit code: 0 done; 1 a server failed, or the daemon does not answer; 2 usage, or a configuration that cannot be used. Of wrap the
code of CMD, or 128 and the number of the signal that ended it.
`,
  async run([name, ...rest], io) {
    switch (parseVerb('mcp', name, ['ls', 'check', 'test', 'config', 'wrap'])) {
      case 'ls':
        return listServers(rest, io)
      case 'check':
        return checkServers(rest, io)
      case 'test':
        return testServer(rest, io)
      case 'config':
        return printConfig(rest, io)
      case 'wrap':
        return wrapServer(rest, io)
    }
  },
}
