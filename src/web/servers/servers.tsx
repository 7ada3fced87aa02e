import { ViewHead } from '../parts/view-head.tsx'

export function Servers() {
  return <ViewHead title="MCP servers" />
}
