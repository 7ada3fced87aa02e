import { ViewHead } from '../parts/view-head.tsx'

export function Inbox() {
  return <ViewHead title="Inbox" />
}
