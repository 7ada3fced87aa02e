export type Tab = { readonly label: string; readonly href: string; readonly isShown: boolean }

/** The parts of a view, each with an address of its own. */
export function Tabs({ label, tabs }: { label: string; tabs: readonly Tab[] }) {
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map((tab) => (
        <a key={tab.label} href={tab.href} aria-current={tab.isShown ? 'page' : undefined}>
          {tab.label}
        </a>
      ))}
    </nav>
  )
}
