/** Only what never comes true takes so long: it is said of a machine that has much else to do too. */
const LIMIT_MS = 60_000

/** Tries until the check holds: for what is written after the last byte that a test can see. Gives the last error after a minute. */
export async function eventually<T>(check: () => Promise<T> | T): Promise<T> {
  const end = performance.now() + LIMIT_MS
  for (;;) {
    try {
      return await check()
    } catch (error) {
      if (performance.now() > end) throw error
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  }
}
