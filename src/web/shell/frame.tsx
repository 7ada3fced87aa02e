import type { FunctionComponent } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { connection } from '../api/feed.ts'
import { listens } from '../api/listening.ts'
import { logOut } from '../api/login.ts'
import { StandingBadge } from '../audit/standing-badge.tsx'
import { pendingCount } from '../inbox/questions.ts'
import { Badge } from '../parts/badge.tsx'
import { Empty } from '../parts/empty.tsx'
import { FirstRun } from '../start/first-run.tsx'
import { hrefOf, route } from './route.ts'
import { setTheme, theme, type Theme } from './theme.ts'
import { VIEWS, type ViewName } from './views.ts'

const NAMES = Object.keys(VIEWS) as ViewName[]

/** They have nothing to show before the first session. */
const FIRST_VIEWS: ReadonlySet<string> = new Set(['inbox', 'sessions'])

/** Menu, state and the view that the address names. */
export function Frame() {
  return (
    <div class="frame">
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <Menu />
      <main id="main" class="frame-main" tabIndex={-1}>
        {connection.value === 'lost' && (
          <p class="note note-warn" role="status">
            The daemon does not answer. What is shown may be old; this page goes on by itself when it is back.
          </p>
        )}
        {!listens.value && (
          <p class="note note-warn" role="status">
            Three other windows of this page listen to the daemon, and a browser has few connections to one place. What is shown here may be
            old; click into this window and it is told again.
          </p>
        )}
        {FIRST_VIEWS.has(route.value.view) && route.value.rest.length === 0 && <FirstRun />}
        <Shown />
      </main>
    </div>
  )
}

function skip(event: Event): void {
  // Not by the address: its fragment names the view.
  event.preventDefault()
  document.getElementById('main')?.focus()
}

function Menu() {
  const at = route.value.view
  const isLive = listens.value && connection.value === 'live'
  const list = useRef<HTMLUListElement>(null)
  useEffect(() => {
    const shown = list.current?.querySelector<HTMLElement>('[aria-current]')
    // Alone: the page stays where it is.
    if (list.current && shown) list.current.scrollLeft = shown.offsetLeft - (list.current.clientWidth - shown.offsetWidth) / 2
  }, [at])
  return (
    <nav class="menu" aria-label="Views">
      <p class="menu-name">Sallyport</p>
      <ul ref={list}>
        {NAMES.map((name) => (
          <li key={name}>
            <a href={hrefOf(name)} aria-current={name === at ? 'page' : undefined}>
              <span>{VIEWS[name].label}</span>
              {name === 'inbox' && pendingCount.value > 0 && (
                <span class="menu-count">
                  {pendingCount.value}
                  <span class="visually-hidden"> waiting</span>
                </span>
              )}
            </a>
          </li>
        ))}
      </ul>
      <div class="menu-foot">
        <Badge tone={isLive ? 'ok' : 'warn'}>{isLive ? 'live' : 'not connected'}</Badge>
        <StandingBadge />
        <label class="visually-hidden" for="theme">
          Colours
        </label>
        <select id="theme" class="input" value={theme.value} onChange={(event) => setTheme(event.currentTarget.value as Theme)}>
          <option value="system">as the system</option>
          <option value="light">light</option>
          <option value="dark">dark</option>
        </select>
        <button type="button" class="button button-plain" onClick={() => void logOut()}>
          Log out
        </button>
      </div>
    </nav>
  )
}

function Shown() {
  const { view } = route.value
  const [loaded, setLoaded] = useState<{ readonly name: string; readonly Component: FunctionComponent } | undefined>()
  const [failed, setFailed] = useState(false)
  const isFirst = useRef(true)
  useEffect(() => {
    if (!Object.hasOwn(VIEWS, view)) return undefined
    let isOver = false
    VIEWS[view as ViewName].load().then(
      (Component) => !isOver && (setFailed(false), setLoaded({ name: view, Component })),
      () => !isOver && setFailed(true),
    )
    return () => void (isOver = true)
  }, [view])
  useEffect(() => {
    if (loaded === undefined) return
    document.title = `${VIEWS[loaded.name as ViewName].label} · Sallyport`
    // Who changed the view with the keyboard or hears the page is taken there; who only opened it is left alone.
    if (!isFirst.current) document.querySelector<HTMLElement>('#main h1')?.focus()
    isFirst.current = false
  }, [loaded])
  if (!Object.hasOwn(VIEWS, view)) return <Empty title="There is no such view" />
  if (failed) return <Empty title="This part of the page could not be loaded: load it anew" />
  if (loaded?.name !== view) return <p class="quiet">…</p>
  const { Component } = loaded
  return <Component />
}
