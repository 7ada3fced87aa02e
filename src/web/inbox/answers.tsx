import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef } from 'preact/hooks'
import { APPROVAL_LIMITS } from '../../kernel/approval-limits.ts'
import type { QuestionCard } from '../../wire/question-card.ts'
import { Button } from '../parts/button.tsx'
import type { Answering } from './answering.ts'
import { ARMED_WORDS } from './arming.ts'
import { claimedByOther } from './claim.ts'

type Props = { readonly card: QuestionCard; readonly answering: Answering }

const MESSAGE_CHARS_MAX = 2_000

/** The answers. A no can always be given at once; a yes when what is asked was seen. */
export function Answers(props: Props) {
  const { card, answering } = props
  const { panel, open, say, isBusy, picked } = answering
  const count = picked.length
  if (panel === 'message') return <Message {...props} />
  const many = count === 1 ? '' : ` (${count})`
  const isProposal = card.kind === 'proposal'
  return (
    <div class="inbox-answers" role="group" aria-label="Answer">
      <Offer card={card} />
      {panel === 'remember' ? (
        <>
          <Allow {...props} scope="remember" kind="main">
            Allow and remember
          </Allow>
          <Button onPress={() => open('answers')}>Back</Button>
        </>
      ) : (
        <>
          <Allow {...props} scope="once" kind="main" shortcut="a">
            Allow once{many}
          </Allow>
          {!isProposal && (
            <Allow {...props} scope="session" shortcut="s">
              Allow for the session{many}
            </Allow>
          )}
          {card.canRemember && count === 1 && (
            <Button onPress={() => open('remember')} aria-keyshortcuts="r">
              Remember…
            </Button>
          )}
        </>
      )}
      <span class="inbox-gap" />
      <Button kind="bad" aria-keyshortcuts="d" disabled={isBusy} onPress={() => say({ decision: 'deny', scope: 'once' })}>
        Deny{many}
      </Button>
      <Button aria-keyshortcuts="m" disabled={isBusy} onPress={() => open('message')}>
        Deny with a message…
      </Button>
      {!isProposal && (
        <Button aria-keyshortcuts="n" disabled={isBusy} onPress={() => say({ decision: 'deny', scope: 'session' })}>
          Deny for the session
        </Button>
      )}
      <Why {...props} />
    </div>
  )
}

function Why({ card, answering: { arming, picked } }: Props) {
  const by = claimedByOther(card)
  const words =
    picked.length === 0
      ? 'None of them is chosen.'
      : by === undefined
        ? ARMED_WORDS[arming.state]
        : `${by} has it in hand: a yes is theirs for now, a no is always heard.`
  return (
    <p id="inbox-why" class="small quiet inbox-why">
      {words}
    </p>
  )
}

function Allow(
  props: Props & {
    readonly scope: 'once' | 'session' | 'remember'
    readonly kind?: 'main'
    readonly shortcut?: string
    children: ComponentChildren
  },
) {
  const { card, answering, scope, kind, shortcut, children } = props
  const { arming, isBusy, picked, say, refused } = answering
  const isOpen = arming.state === 'armed' && !isBusy && picked.length > 0 && claimedByOther(card) === undefined
  return (
    <button
      type="button"
      class={`button${kind === undefined ? '' : ` button-${kind}`}`}
      aria-disabled={!isOpen}
      aria-describedby="inbox-why"
      aria-keyshortcuts={shortcut}
      onPointerDown={arming.begin}
      onKeyDown={(event) => {
        if (event.key !== 'Enter' && event.key !== ' ') return
        if (event.repeat) event.preventDefault()
        else arming.begin()
      }}
      onClick={() => (arming.take() && isOpen ? void say({ decision: 'allow', scope }) : refused())}
    >
      {children}
    </button>
  )
}

function Offer({ card: { offer } }: { card: QuestionCard }) {
  if (offer === undefined) return null
  return (
    <p class="note inbox-offer">
      {offer === 'allow'
        ? `You allowed the last ${APPROVAL_LIMITS.offerAllowAnswersMin} like it. If you want: "Allow for the session" lets all further ones through that are the same, word for word.`
        : `You denied the last ${APPROVAL_LIMITS.offerDenyAnswersMin} like it. If you want: "Deny for the session" refuses all further ones that are the same, word for word.`}
    </p>
  )
}

function Message({ answering: { open, say, isBusy } }: Props) {
  const id = useId()
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => field.current?.focus(), [])
  return (
    <form
      class="inbox-answers"
      onSubmit={(event) => {
        event.preventDefault()
        const message = field.current?.value.trim() ?? ''
        void say({ decision: 'deny', scope: 'once', ...(message !== '' && { message }) })
      }}
    >
      <label for={id}>For the agent: why not, or what to do instead</label>
      <input
        ref={field}
        id={id}
        class="input"
        maxLength={MESSAGE_CHARS_MAX}
        autocomplete="off"
        onKeyDown={(event) => event.key === 'Escape' && open('answers')}
      />
      <button type="submit" class="button button-bad" disabled={isBusy}>
        Deny with this message
      </button>
      <Button onPress={() => open('answers')}>Back</Button>
    </form>
  )
}
