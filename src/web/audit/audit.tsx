import { ViewHead } from '../parts/view-head.tsx'

export function Audit() {
  return <ViewHead title="Audit" />
}
