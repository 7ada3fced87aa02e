/** Tries until the check holds: for what is written after the last byte that a test can see. Gives the last error after a few seconds. */
export async function eventually<T>(check: () => Promise<T> | T): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await check()
    } catch (error) {
      if (attempt > 400) throw error
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
  }
}
