import type { Command } from './command.ts'
export const doctorCommand: Command = { summary: '', usage: '', run: () => Promise.resolve(0) }
