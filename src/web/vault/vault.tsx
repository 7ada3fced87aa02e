import { ViewHead } from '../parts/view-head.tsx'

export function Vault() {
  return <ViewHead title="Vault" />
}
