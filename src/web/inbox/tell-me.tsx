import { useSignal } from '@preact/signals'
import { Button } from '../parts/button.tsx'
import { pendingCount } from './questions.ts'

/** Asks whether to tell of questions while the page is in the background: with a line, where nothing waits or something was just answered. */
export function TellMe({ hasAnswered }: { hasAnswered: boolean }) {
  const permission = useSignal('Notification' in globalThis ? Notification.permission : 'denied')
  const isPutOff = useSignal(false)
  if (permission.value !== 'default' || isPutOff.value || (!hasAnswered && pendingCount.value > 0)) return null
  return (
    <div class="inbox-tell small">
      <span class="grow">Shall the browser tell you of questions while this page is in the background?</span>
      <Button onPress={async () => void (permission.value = await Notification.requestPermission())}>Tell me</Button>
      <Button kind="plain" onPress={() => void (isPutOff.value = true)}>
        Not now
      </Button>
    </div>
  )
}
