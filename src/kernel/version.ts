/** Held to package.json by a contract test. */
export const VERSION = '0.1.0'
