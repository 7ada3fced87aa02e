import { Tabs } from '../parts/tabs.tsx'
import { ViewHead } from '../parts/view-head.tsx'
import { hrefOf, route } from '../shell/route.ts'
import { Effective } from './effective.tsx'
import { Explain } from './explain.tsx'
import { Files } from './files.tsx'
import { History } from './history.tsx'
import { Remembered } from './remembered.tsx'
import './policies.css'

const TABS = {
  files: { label: 'Files', Shown: Files },
  effective: { label: 'Effective', Shown: Effective },
  explain: { label: 'Explain', Shown: Explain },
  remembered: { label: 'For a time', Shown: Remembered },
  history: { label: 'History', Shown: History },
} as const

/** What agents may do: the files that say it, what they come to, and what became of them. */
export function Policies() {
  const [wanted = 'files'] = route.value.rest
  const name = Object.hasOwn(TABS, wanted) ? (wanted as keyof typeof TABS) : 'files'
  const { Shown } = TABS[name]
  return (
    <>
      <ViewHead title="Policies" about="What agents may do. The strictest rule that matches decides; what no rule allows is refused." />
      <Tabs
        label="Parts of Policies"
        tabs={Object.entries(TABS).map(([key, { label }]) => ({ label, href: hrefOf('policies', [key]), isShown: key === name }))}
      />
      <Shown />
    </>
  )
}
