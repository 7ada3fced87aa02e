import { ViewHead } from '../parts/view-head.tsx'

export function Activity() {
  return <ViewHead title="Activity" />
}
