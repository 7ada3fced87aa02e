import { render } from 'preact'
import { beginLogin } from './api/login.ts'
import { App } from './shell/app.tsx'
import { applyTheme } from './shell/theme.ts'
import './parts/tokens.css'
import './parts/parts.css'
import './shell/shell.css'

applyTheme()
void beginLogin()
const place = document.getElementById('page')
if (place !== null) {
  place.replaceChildren()
  render(<App />, place)
}
