import assert from 'node:assert/strict'
import { chmodSync, lchownSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { strangerAbove } from '../../../src/kernel/folders-above.ts'

function place() {
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'sallyport-above-')))
  mkdirSync(join(root, 'one', 'two', 'home'), { recursive: true })
  return { root, home: join(root, 'one', 'two', 'home'), [Symbol.dispose]: () => rmSync(root, { recursive: true }) }
}

test('a folder below folders of root and our own, and below one with the sticky bit, is in nobody else’s hands', () => {
  using it = place()
  assert.equal(strangerAbove(it.home), undefined)
  assert.equal(strangerAbove(join(it.home, 'to', 'be', 'made')), undefined)
  chmodSync(join(it.root, 'one'), 0o1777)
  assert.equal(strangerAbove(it.home), undefined)
})

test('a folder anywhere above that everybody may write in is named', () => {
  using it = place()
  chmodSync(join(it.root, 'one'), 0o777)
  assert.match(strangerAbove(it.home) ?? '', new RegExp(`everybody may write in ${it.root}/one \\(mode 777, no sticky bit\\)`))
  assert.match(strangerAbove(join(it.home, 'to', 'be', 'made')) ?? '', /everybody may write/)
})

test('what is behind a link counts, and the folder that the link stands in', () => {
  using it = place()
  mkdirSync(join(it.root, 'open'))
  symlinkSync(join(it.root, 'one'), join(it.root, 'open', 'link'))
  const throughLink = join(it.root, 'open', 'link', 'two', 'home')
  assert.equal(strangerAbove(throughLink), undefined)
  chmodSync(join(it.root, 'open'), 0o777)
  assert.match(strangerAbove(throughLink) ?? '', /\/open/)
  chmodSync(join(it.root, 'open'), 0o755)
  chmodSync(join(it.root, 'one', 'two'), 0o757)
  assert.match(strangerAbove(throughLink) ?? '', /two \(mode 757/)
})

const skip = process.getuid?.() === 0 ? false : 'only root can give folders away'

for (const what of ['folder', 'link'] as const)
  test(`a ${what} above that belongs to another user is named`, { skip }, () => {
    using it = place()
    symlinkSync(join(it.root, 'one'), join(it.root, 'link'))
    lchownSync(join(it.root, what === 'link' ? 'link' : 'one'), 4711, 4711)
    const home = join(it.root, what === 'link' ? 'link' : 'one', 'two', 'home')
    assert.match(strangerAbove(home) ?? '', /belongs to uid 4711/)
  })

test('a folder that is itself a link of another user’s is named', { skip }, () => {
  using it = place()
  symlinkSync(it.home, join(it.root, 'link'))
  assert.equal(strangerAbove(join(it.root, 'link')), undefined)
  lchownSync(join(it.root, 'link'), 4711, 4711)
  assert.match(strangerAbove(join(it.root, 'link')) ?? '', /link belongs to uid 4711/)
})

test('what a link of our own leads through counts: a link of another user’s, and an open folder with a link in it', { skip }, () => {
  using it = place()
  mkdirSync(join(it.root, 'between'))
  symlinkSync(join(it.root, 'one'), join(it.root, 'between', 'second'))
  symlinkSync('between/second', join(it.root, 'first'))
  const home = join(it.root, 'first', 'two', 'home')
  assert.equal(strangerAbove(home), undefined)
  chmodSync(join(it.root, 'between'), 0o777)
  assert.match(strangerAbove(home) ?? '', /everybody may write in \S+\/between /)
  chmodSync(join(it.root, 'between'), 0o1777)
  assert.equal(strangerAbove(home), undefined)
  lchownSync(join(it.root, 'between', 'second'), 4711, 4711)
  assert.match(strangerAbove(home) ?? '', /second belongs to uid 4711/)
})

test('a way up leads where the kernel goes, and links that lead to each other are named', () => {
  using it = place()
  symlinkSync('one/two', join(it.root, 'link'))
  mkdirSync(join(it.root, 'home'))
  chmodSync(join(it.root, 'one'), 0o777)
  // To "one/home", which is not there yet, and not to "home".
  assert.match(strangerAbove(`${it.root}/link/../home`) ?? '', /everybody may write in \S+\/one /)
  symlinkSync('b', join(it.root, 'a'))
  symlinkSync('a', join(it.root, 'b'))
  assert.match(strangerAbove(join(it.root, 'a', 'home')) ?? '', /links/)
})
