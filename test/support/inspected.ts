import { capture } from '../../scripts/steps.ts'

/** Of the processes of a container, on the host. */
export async function hostPids(container: string): Promise<number[]> {
  const { stdout } = await capture('docker', ['top', container, '-eo', 'pid'])
  return stdout.split('\n').slice(1).filter(Boolean).map(Number)
}

/** What the engine says of a container, by a template. */
export async function inspected<T>(container: string | undefined, format: string): Promise<T> {
  return JSON.parse((await capture('docker', ['inspect', '--format', `{{json ${format}}}`, container ?? ''])).stdout) as T
}
