import assert from 'node:assert/strict'

const TAG = /<(\/?)([a-z]+)((?:\s+[a-zA-Z0-9:-]+="[^"<]*")*)\s*(\/?)>/y

/** Fails unless every element is closed in order, every attribute is quoted, and no text has a bare `<` or `&`. */
export function assertWellFormed(xml: string): void {
  const open: string[] = []
  let at = 0
  while (at < xml.length) {
    const next = xml.indexOf('<', at)
    const between = xml.slice(at, next === -1 ? xml.length : next)
    assert.doesNotMatch(between.replaceAll(/&(?:amp|lt|gt|quot);/g, ''), /&/, 'a bare &')
    if (next === -1) break
    TAG.lastIndex = next
    const tag = TAG.exec(xml)
    assert.ok(tag, `no tag at ${xml.slice(next, next + 60)}`)
    const [whole, closes, name = '', attributes = '', isEmpty] = tag
    assert.doesNotMatch(attributes.replaceAll(/&(?:amp|lt|gt|quot);/g, ''), /&/, 'a bare & in an attribute')
    if (closes === '/') assert.equal(open.pop(), name)
    else if (isEmpty !== '/') open.push(name)
    at = next + whole.length
  }
  assert.deepEqual(open, [])
}

/** The attributes of every element of this name, in order. */
export function attributesOf(xml: string, name: string): Record<string, string>[] {
  return [...xml.matchAll(new RegExp(`<${name}\\b([^>]*)>`, 'g'))].map(([, text = '']) =>
    Object.fromEntries([...text.matchAll(/([a-zA-Z0-9:-]+)="([^"]*)"/g)].map(([, key = '', value = '']) => [key, value])),
  )
}
