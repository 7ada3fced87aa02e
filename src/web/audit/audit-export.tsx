import { useState } from 'preact/hooks'
import { send } from '../api/client.ts'
import { Button } from '../parts/button.tsx'
import { saveFile } from '../parts/save-file.ts'

const ENDINGS = { jsonl: 'jsonl', csv: 'csv', syslog: 'log' } as const
type Format = keyof typeof ENDINGS

/** What is asked for now, as a file. */
export function AuditExport({ asked }: { asked: string }) {
  const [format, setFormat] = useState<Format>('jsonl')
  const save = async (): Promise<void> => {
    const response = await send('GET', `/v1/audit/export?${asked === '' ? '' : `${asked}&`}format=${format}`)
    saveFile(`sallyport-audit.${ENDINGS[format]}`, await response.blob())
  }
  return (
    <>
      <label class="visually-hidden" for="audit-format">
        Format
      </label>
      <select
        id="audit-format"
        class="input audit-format"
        value={format}
        onChange={(event) => setFormat(event.currentTarget.value as Format)}
      >
        {Object.keys(ENDINGS).map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
      <Button onPress={save}>Export</Button>
    </>
  )
}
