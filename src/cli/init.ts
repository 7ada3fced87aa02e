import type { Command } from './command.ts'
export const initCommand: Command = { summary: '', usage: '', run: () => Promise.resolve(0) }
