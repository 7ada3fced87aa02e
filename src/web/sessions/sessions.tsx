import { ViewHead } from '../parts/view-head.tsx'

export function Sessions() {
  return <ViewHead title="Sessions" />
}
