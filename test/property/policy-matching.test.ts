import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isHostname, parseHostname } from '../../src/kernel/hostname.ts'
import { coversHost, hostsOverlap, matchesHost, parseHostPattern } from '../../src/policy/hosts.ts'
import { loosen, splitPathLoosely } from '../../src/policy/lenient-paths.ts'
import { canonicalPath, matchesPath, parsePathPattern, pathProblem, pathsOverlap, splitPath } from '../../src/policy/paths.ts'

const label = fc.constantFrom('a', 'b', 'ab', 'x-y')
const host = fc.array(label, { minLength: 1, maxLength: 5 }).map((labels) => [...labels, 'net'].join('.'))
const hostPattern = fc.tuple(fc.boolean(), host).map(([isWild, name]) => (isWild ? `*.${name}` : name))

function pattern(text: string) {
  const parsed = parseHostPattern(text)
  if (typeof parsed === 'string') throw new Error(parsed)
  return parsed
}

function named(text: string) {
  const parsed = parseHostname(text)
  assert.ok(isHostname(parsed))
  return parsed
}

test('a host pattern matches what comparing label by label from the right says', () => {
  fc.assert(
    fc.property(hostPattern, host, (text, name) => {
      const [right, left] = [text.split('.').toReversed(), name.split('.').toReversed()]
      const naive = text.startsWith('*.')
        ? left.length > right.length - 1 && right.slice(0, -1).every((part, index) => part === left[index])
        : text === name
      assert.equal(matchesHost(pattern(text), named(name)), naive)
    }),
    { numRuns: 2_000 },
  )
})

test('a pattern covers another exactly when no host shows otherwise, and overlap is symmetric', () => {
  fc.assert(
    fc.property(hostPattern, hostPattern, host, (a, b, name) => {
      if (coversHost(pattern(a), pattern(b)) && matchesHost(pattern(b), named(name))) assert.ok(matchesHost(pattern(a), named(name)))
      if (matchesHost(pattern(a), named(name)) && matchesHost(pattern(b), named(name))) assert.ok(hostsOverlap(pattern(a), pattern(b)))
      assert.equal(hostsOverlap(pattern(a), pattern(b)), hostsOverlap(pattern(b), pattern(a)))
    }),
    { numRuns: 2_000 },
  )
})

const piece = fc.constantFrom('a', 'b', 'ab', 'aa', '%2F', '')
const pathText = fc
  .array(fc.constantFrom('a', 'b', 'ab', 'aab', 'a%2Fb', 'ba'), { minLength: 0, maxLength: 5 })
  .chain((segments) => fc.boolean().map((slash) => `/${segments.join('/')}${slash && segments.length > 0 ? '/' : ''}`))
const segmentPattern = fc.oneof(
  fc.constant('**'),
  fc.constant('*'),
  fc
    .array(piece, { minLength: 1, maxLength: 3 })
    .map((pieces) => pieces.join('*').replace(/\*{2,}/g, '*'))
    .filter((text) => text !== ''),
)
const pathPattern = fc
  .array(segmentPattern, { minLength: 1, maxLength: 4 })
  .map((segments) => `/${segments.filter((segment, index) => segment !== '**' || segments[index - 1] !== '**').join('/')}`)

/** By regular expression, which tries everything. */
function naiveMatch(text: string, path: string): boolean {
  const segments = text === '' ? [] : text.slice(1).split('/')
  const source = segments
    .map((segment) => (segment === '**' ? '(?:/[^/]*)*' : segment === '*' ? '/[^/]+' : `/${segment.replaceAll('*', '[^/]*')}`))
    .join('')
  return new RegExp(`^${source}$`).test(path)
}

function compiled(text: string) {
  const parsed = parsePathPattern(text)
  if (typeof parsed === 'string') throw new Error(parsed)
  return parsed
}

test('a path pattern matches what a regular expression that tries everything says', () => {
  fc.assert(
    fc.property(pathPattern, pathText, (text, path) => assert.equal(matchesPath(compiled(text), splitPath(path)), naiveMatch(text, path))),
    { numRuns: 5_000 },
  )
})

/** A path or a pattern as each kind of server reads it, as text. Nothing of the code under test. */
function readingsOf(text: string): string[] {
  const exact = text.replace(/%[0-9a-f]{2}/gi, (triplet) => triplet.toUpperCase())
  const decoded = exact.replaceAll('%40', '@').replaceAll('%3B', ';')
  const lenient = [decoded, decoded.replaceAll('%2F', '/')]
    .flatMap((reading) => [reading, reading.replace(/;[^/]*/g, '')])
    .map((reading) => reading.replace(/\/+/g, '/').replace(/\/$/, ''))
  return [exact, ...lenient]
}

const spelledText = (parts: readonly string[]) =>
  fc
    .array(fc.constantFrom(...parts), { maxLength: 7 })
    .map((chosen) => `/${chosen.join('')}`)
    .filter((text) => pathProblem(text) === undefined && typeof parsePathPattern(text) !== 'string')

test('some reading of a pattern matches some reading of a path exactly where texts and a regular expression say so', () => {
  const parts = ['a', 'a', 'b', '/', '%2F', ';', '%3b', '@', '%40']
  fc.assert(
    fc.property(spelledText([...parts, '*', '*']), spelledText(parts), (text, path) => {
      const denied = compiled(text)
      const readings = [splitPath(path), ...splitPathLoosely(path)]
      const found = [denied, ...loosen(denied)].some((read) => readings.some((reading) => matchesPath(read, reading)))
      const naive = readingsOf(text).some((read) => readingsOf(path).some((reading) => naiveMatch(read, reading)))
      assert.equal(found, naive)
    }),
    { numRuns: 10_000 },
  )
})

/** What lenient servers take for nothing: parameters, empty segments, another spelling of "/" or of a reserved character. */
const respelling = fc.array(
  fc.record({
    at: fc.nat(20),
    insert: fc.constantFrom(';', ';x', '%3bx', '%2F', '/;', '/;x%40', '%2f%3B'),
    slash: fc.constantFrom('/', '%2F', '%2f', '/;/', ';a/', '%3B%2F'),
  }),
  { minLength: 1, maxLength: 4 },
)

test('what a rule denies by a path it denies in every respelling that a server which decodes, drops parameters and merges slashes undoes', () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom('a', 'b%C3%A9', '@x', '(c)'), { minLength: 1, maxLength: 4 }),
      fc.constantFrom('', '/**', '/'),
      respelling,
      (names, tail, changes) => {
        const denied = compiled(`/${names.join('/')}${tail}`)
        const respelled = names.map((name, index) => {
          const mine = changes.filter(({ at }) => at % names.length === index)
          const spelled = mine.length % 2 === 1 ? name.replace('@', '%40').replaceAll('(', '%28').toLowerCase() : name
          return `${mine[0]?.slash ?? '/'}${spelled}${mine.map(({ insert }) => insert).join('/')}`
        })
        const text = respelled.join('').replace(/^(?!\/)/, '/')
        if (pathProblem(text) !== undefined) return
        const readings = [splitPath(text), ...splitPathLoosely(text)]
        assert.ok(
          [denied, ...loosen(denied)].some((read) => readings.some((reading) => matchesPath(read, reading))),
          `${text} passes by ${denied.text}`,
        )
      },
    ),
    { numRuns: 10_000 },
  )
})

test('patterns that share a path overlap', () => {
  fc.assert(
    fc.property(pathPattern, pathPattern, pathText, (a, b, path) => {
      const [x, y, segments] = [compiled(a), compiled(b), splitPath(path)]
      if (matchesPath(x, segments) && matchesPath(y, segments)) assert.ok(pathsOverlap(x, y))
      assert.equal(pathsOverlap(x, y), pathsOverlap(y, x))
    }),
    { numRuns: 5_000 },
  )
})

test('a path that a pattern was made from overlaps with it, and one with a foreign first segment does not', () => {
  fc.assert(
    fc.property(pathText, (path) => {
      assert.ok(pathsOverlap(compiled(path), compiled('/**')))
      assert.equal(pathsOverlap(compiled(path), compiled('/zz/**')), false)
    }),
  )
})

const wild = fc
  .array(
    fc.oneof(
      fc.constantFrom('/', '.', '..', '%2e', '%2F', '%5c', '%25', '%', ';', '\\', 'a', '%41', '%c3%a9', '%c0%ae', 'é', '\0', '?', '#'),
      fc.string({ unit: 'binary', maxLength: 2 }),
    ),
    { maxLength: 12 },
  )
  .map((parts) => `/${parts.join('')}`)

test('the canonical spelling of a path is canonical, and its own canonical spelling', () => {
  fc.assert(
    fc.property(wild, (text) => {
      const once = canonicalPath(text)
      if (once === undefined) return
      assert.equal(pathProblem(once), undefined)
      assert.equal(canonicalPath(once), once)
    }),
    { numRuns: 10_000 },
  )
})

test('a canonical path means the same to a server that decodes once, drops parameters, merges slashes and resolves dots', () => {
  fc.assert(
    fc.property(wild, (text) => {
      if (pathProblem(text) !== undefined) return
      const decoded = decodeURIComponent(text.replace(/;[^/]*/g, ''))
      const names = decoded.replaceAll('\\', '/').split('/')
      assert.ok(!names.includes('..') && !names.includes('.'), text)
      assert.ok(!decoded.includes('\0'))
    }),
    { numRuns: 10_000 },
  )
})
