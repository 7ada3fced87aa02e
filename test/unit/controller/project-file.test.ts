import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { findProject, projectsFolder, projectsOf, writeProjectFile } from '../../../src/controller/sessions/project-file.ts'

const NAME = 'sallyport-work-0123abcd'

function place() {
  const root = mkdtempSync(join(tmpdir(), 'sallyport-projects-'))
  const home = join(root, 'home')
  const write = (folder: string, name = NAME): void => {
    mkdirSync(folder, { recursive: true })
    writeProjectFile(folder, {
      version: 1,
      name,
      workspace: '/work',
      owner: { uid: 1000, gid: 1000 },
      policies: [],
      policyDirs: [],
      secretsDir: '/secrets',
      agentLeases: [],
      filesystem: { workspace: 'rw', hide: [], git_metadata: 'protected' },
      kept: null,
    })
  }
  return { root, home, write, [Symbol.dispose]: () => rmSync(root, { recursive: true }) }
}

test('a project is found by the name of its folder in the home', () => {
  using it = place()
  it.write(join(projectsFolder(it.home), NAME))
  assert.equal(findProject(it.home, NAME)?.workspace, '/work')
  assert.deepEqual(
    projectsOf(it.home).map(({ name }) => name),
    [NAME],
  )
})

test('I55 no name leads to a project elsewhere, and a file that says another name is none', () => {
  using it = place()
  it.write(join(it.root, NAME))
  it.write(join(projectsFolder(it.home), `${NAME}-x`))
  mkdirSync(join(projectsFolder(it.home), 'a'), { recursive: true })
  for (const name of [`../../${NAME}`, `a/../../../${NAME}`, join(it.root, NAME), `${NAME}-x`, `./${NAME}`, '..', '', '\0', NAME])
    assert.equal(findProject(it.home, name), undefined, JSON.stringify(name))
  // Nor does a link that stands for the folder.
  symlinkSync(join(it.root, NAME), join(projectsFolder(it.home), NAME))
  assert.equal(findProject(it.home, NAME), undefined)
  assert.deepEqual(projectsOf(it.home), [])
})
