import type { SwapPlace } from '../../src/wire/credential.ts'

/** Every place of a head that a placeholder may be swapped in, the query's by the name of `key`. */
export const EVERYWHERE: readonly SwapPlace[] = [{ kind: 'header' }, { kind: 'basic' }, { kind: 'query', name: 'key' }, { kind: 'path' }]

export type MisplacedHead = {
  readonly why: string
  readonly path: string
  readonly headers: string[]
  readonly places: readonly SwapPlace[]
}

/** Heads with a placeholder where none of `places` is. It has a "g" and letters of both cases. */
export function misplacedHeads(P: string): MisplacedHead[] {
  const base64 = (text: string): string => Buffer.from(text).toString('base64')
  const heads: (Partial<MisplacedHead> & { readonly why: string })[] = [
    { why: 'a field that is no credential’s', headers: ['Referer', P] },
    { why: 'a cookie', headers: ['Cookie', `a=${P}`] },
    { why: 'a cookie, escaped', headers: ['Cookie', `a=${P.replace('g', '%67')}`], places: [{ kind: 'header', header: 'Cookie' }] },
    { why: 'a field’s name', headers: [`x-${P}`, 'v'] },
    { why: 'a field’s name, in lower case', headers: [`x-${P.toLowerCase()}`, 'v'] },
    { why: 'another field than the listed one', headers: ['Authorization', P], places: [{ kind: 'header', header: 'X-Api-Key' }] },
    { why: 'basic, which is not listed', headers: ['Authorization', `Basic ${base64(`me:${P}`)}`], places: [{ kind: 'header' }] },
    { why: 'a bearer, where only basic is', headers: ['Authorization', `Bearer ${P}`], places: [{ kind: 'basic' }] },
    { why: 'a header, in another case', headers: ['X-Api-Key', P.toUpperCase()] },
    { why: 'a header, escaped', headers: ['X-Api-Key', P.replace('g', '%67')] },
    { why: 'a header, in base64', headers: ['X-Api-Key', base64(`ab${P}`)] },
    { why: 'a header, in base64 of the other alphabet', headers: ['X-Api-Key', Buffer.from(`\xff\xfe${P}?>`).toString('base64url')] },
    { why: 'a header, beside one in its place', headers: ['X-Api-Key', `${P} ${P.replace('g', '%67')}`] },
    { why: 'a header, as a JSON escape', headers: ['X-Api-Key', `{"a":"${P.replace('g', '\\u0067')}"}`] },
    { why: 'basic, with garbage in the base64', headers: ['Authorization', `Basic ${base64(`me:${P}`).replace(/(.{9})/g, '$1 ')}`] },
    { why: 'basic, with padding in the middle', headers: ['Authorization', `Basic ${base64('m')}${base64(`e:${P}`)}`] },
    { why: 'basic, with a second one behind', headers: ['Authorization', `Basic ${base64('a:b')}, Basic ${base64(`me:${P}`)}`] },
    { why: 'basic, without a space', headers: ['Authorization', `Basic${base64(`me:${P}`)}`] },
    { why: 'basic, escaped inside', headers: ['Authorization', `Basic ${base64(`me:${P.replace('g', '%67')}`)}`] },
    { why: 'basic, in base64 inside', headers: ['Authorization', `Basic ${base64(`me:${base64(P)}`)}`] },
    { why: 'the path, which is not listed', path: `/${P}/x`, places: [{ kind: 'header' }] },
    { why: 'a path’s parameter', path: `/a;token=${P}/x` },
    { why: 'the path, in base64', path: `/${base64(P)}` },
    { why: 'the path, escaped twice', path: `/${P.replace('g', '%2567')}` },
    { why: 'the path, escaped four times', path: `/${P.replace('g', '%25252567')}` },
    { why: 'the path, as IIS escapes', path: `/${P.replace('g', '%u0067')}` },
    { why: 'another parameter', path: `/?token=${P}` },
    { why: 'a parameter that differs by case', path: `/?KEY=${P}` },
    { why: 'a parameter’s name', path: `/?${P}=1` },
    { why: 'a parameter’s name, escaped', path: `/?a&${P.replace('g', '%67')}` },
    { why: 'a parameter escaped twice', path: `/?key=${P.replace('g', '%2567')}` },
    { why: 'a parameter behind a semicolon', path: `/?a=1;key=${P}` },
    { why: 'a parameter with a semicolon', path: `/?key=${P};a=1` },
    {
      why: 'base64 over two fields of one name',
      headers: ['Authorization', `Basic ${base64(`me:${P}`).slice(0, 30)}`, 'Authorization', base64(`me:${P}`).slice(30)],
    },
  ]
  return heads.map((head) => ({ path: '/', headers: [], places: EVERYWHERE, ...head }))
}
