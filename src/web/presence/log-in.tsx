import { loginProblem } from '../api/login.ts'
import { ProblemNote } from '../parts/problem-note.tsx'

export function LogIn() {
  return (
    <main class="log-in">
      <div class="card stack">
        <h1>Sallyport</h1>
        {loginProblem.value !== undefined && <ProblemNote problem={loginProblem.value} />}
        <p>
          To open this page, run <code>sallyport open</code> in a terminal on this machine.
        </p>
      </div>
    </main>
  )
}
