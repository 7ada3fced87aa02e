import { isMap, isSeq, parseDocument, YAMLSeq, type YAMLMap } from 'yaml'
import { describeSource } from '../../policy/policy.ts'
import { BY_POLICY, type KnownSecret } from './known-secret.ts'

/**
 * The operator's policy for a workspace with a secret that is for commands without being asked about again; all else in it stays, comments
 * too. `undefined` where this file cannot say so: the secret is declared in another, or the file is not one that could be changed.
 * @param text undefined where there is no file yet
 */
export function persistedPolicy(
  text: string | undefined,
  name: string,
  { source, grant }: Pick<KnownSecret, 'source' | 'grant'>,
): string | undefined {
  const document = parseDocument(text ?? 'version: 1\n', { version: '1.2', uniqueKeys: true })
  if (document.errors.length > 0 || !isMap(document.contents)) return undefined
  // As they are written there: the difference is what is asked about.
  const written = (): string => document.toString({ lineWidth: 0, flowCollectionPadding: /[{[] /.test(text ?? '') })
  const listed = document.get('secrets', true)
  if (listed !== undefined && !isSeq(listed)) return undefined
  const secrets = listed ?? new YAMLSeq()
  const own = secrets.items.find((item): item is YAMLMap => isMap(item) && item.get('name') === name)
  if (own !== undefined) {
    const resources = own.get('resources', true)
    if (resources === undefined) own.set('resources', document.createNode([...usesWithoutRoutes(grant?.uses), BY_POLICY], { flow: true }))
    else if (isSeq(resources)) resources.add(BY_POLICY)
    else return undefined
    return written()
  }
  // The same name in two files is a mistake: the one that has it is not this one.
  if (grant !== undefined) return undefined
  secrets.add(document.createNode({ name, source: describeSource(source), resources: [BY_POLICY] }))
  if (listed === undefined) document.set('secrets', secrets)
  return written()
}

/** What an entry says that names no resources. Routes come with `inject` by themselves. */
function usesWithoutRoutes(uses: readonly string[] = []): string[] {
  return uses.filter((use) => !use.startsWith('route:'))
}
