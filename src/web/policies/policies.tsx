import { ViewHead } from '../parts/view-head.tsx'

export function Policies() {
  return <ViewHead title="Policies" />
}
