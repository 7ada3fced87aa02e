import assert from 'node:assert/strict'
import { test } from 'node:test'
import { TerminalTickets, type TerminalUse } from '../../../src/controller/operator/terminal-tickets.ts'
import { LIMITS } from '../../../src/kernel/limits.ts'
import { standingClock } from '../../support/presence.ts'

const REFUSED = { code: 'terminal_refused' }

function setting() {
  const clock = standingClock()
  const end = new AbortController()
  const use: TerminalUse = {
    login: { id: 'a', ended: end.signal },
    session: 's-1',
    wish: { kind: 'attach', size: { columns: 80, rows: 24 } },
  }
  return { clock, end, use, tickets: new TerminalTickets(clock) }
}

test('a ticket gives back what it was made for, once', () => {
  const { tickets, use } = setting()
  const ticket = tickets.make(use)
  assert.match(ticket, /^[\w-]{43}$/)
  const { use: given, seenTwice } = tickets.redeem(ticket)
  assert.equal(given, use)
  assert.equal(seenTwice.aborted, false)
  assert.throws(() => tickets.redeem(ticket), REFUSED)
  assert.equal(seenTwice.aborted, true)
})

test('a ticket is good up to its time, and not a moment longer', () => {
  const { tickets, use, clock } = setting()
  const [first, second] = [tickets.make(use), tickets.make(use)]
  clock.pass(LIMITS.pageTerminalTicketMs)
  assert.equal(tickets.redeem(first).use, use)
  clock.pass(1)
  assert.throws(() => tickets.redeem(second), REFUSED)
})

test('a ticket whose login has ended, and one that was made up, open nothing', () => {
  const { tickets, use, end } = setting()
  const ticket = tickets.make(use)
  end.abort()
  assert.throws(() => tickets.redeem(ticket), REFUSED)
  for (const guess of ['', 'A'.repeat(43), ticket.toLowerCase(), `${ticket} `]) assert.throws(() => tickets.redeem(guess), REFUSED)
})

test('of tickets that wait there are so many: the oldest gives way', () => {
  const { tickets, use } = setting()
  const all = Array.from({ length: LIMITS.pageTerminalTicketsMax + 1 }, () => tickets.make(use))
  assert.throws(() => tickets.redeem(all[0] ?? ''), REFUSED)
  assert.equal(tickets.redeem(all[1] ?? '').use, use)
  assert.equal(tickets.redeem(all.at(-1) ?? '').use, use)
})
