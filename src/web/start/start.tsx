import { ViewHead } from '../parts/view-head.tsx'

export function Start() {
  return <ViewHead title="Start" />
}
