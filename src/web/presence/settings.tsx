import { ViewHead } from '../parts/view-head.tsx'

export function Settings() {
  return <ViewHead title="Access" />
}
