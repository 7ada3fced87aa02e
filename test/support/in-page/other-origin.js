// A page of somebody else on this machine, which tries all that a page can try at the one whose address is in `target`: what it got of each.
globalThis.tryAll = async (target, question) => {
  const own = document.body
  const within = (promise) => Promise.race([promise, new Promise((resolve) => setTimeout(() => resolve('nothing'), 1_500))])
  const body = JSON.stringify({ digest: question.digest, decision: 'allow' })
  const answer = `${target}/v1/questions/${question.id}/answer`
  const fetched = (path, options) =>
    fetch(target + path, options).then(
      (response) => response.text(),
      () => 'nothing',
    )
  const element = (name, attribute, url) =>
    within(
      new Promise((resolve) => {
        const made = document.createElement(name)
        made.addEventListener('load', () => {
          let text = 'loaded'
          try {
            text = made.contentDocument?.body.textContent ?? 'nothing'
          } catch {
            text = 'nothing'
          }
          resolve(name === 'iframe' || name === 'object' || name === 'embed' ? text || 'nothing' : text)
        })
        made.addEventListener('error', () => resolve('nothing'))
        made[attribute] = url
        own.append(made)
      }),
    )
  const form = (type) => {
    const made = document.createElement('form')
    Object.assign(made, { method: 'post', enctype: type, action: answer, target: 'sink' })
    const field = document.createElement('input')
    // With text/plain the whole reads as JSON.
    Object.assign(field, { name: `${body.slice(0, -1)},"message":"`, value: '"}' })
    made.append(field)
    own.append(made)
    made.submit()
    return 'nothing'
  }
  const opened = async () => {
    const popup = open(`${target}/#/settings`)
    if (popup === null) return 'nothing'
    await new Promise((resolve) => setTimeout(resolve, 700))
    const seen = []
    for (const look of [
      () => popup.document.title,
      () => popup.location.href,
      () => popup.localStorage.length,
      () => popup.frames.length && popup[0].name,
    ])
      try {
        const got = look()
        if (got !== 0 && got !== undefined) seen.push(String(got))
      } catch {
        // As it should be.
      }
    for (let count = 0; count < 3; count += 1) popup.postMessage({ token: true, type: 'login', ticket: 'x' }, '*')
    return seen.length === 0 ? 'nothing' : seen.join()
  }
  const passkey = () =>
    navigator.credentials
      .get({ publicKey: { challenge: new Uint8Array(32), rpId: 'localhost', userVerification: 'required', timeout: 1_000 } })
      .then(
        (credential) => JSON.stringify(credential),
        () => 'nothing',
      )
  const frame = document.createElement('iframe')
  frame.name = 'sink'
  own.append(frame)
  let told = 'nothing'
  addEventListener('message', ({ origin }) => {
    if (origin === target) told = 'a message'
  })
  const got = {
    'a plain fetch': await fetched('/v1/questions'),
    'a fetch of the page': await fetched('/'),
    'a fetch of the ways to log in': await fetched('/v1/login/ways'),
    'a fetch with JSON': await fetched(`/v1/questions/${question.id}/answer`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    }),
    'a fetch with text': await fetched(`/v1/questions/${question.id}/answer`, {
      method: 'POST',
      headers: { 'content-type': 'text/plain' },
      body,
    }),
    'a fetch that reads nothing': await fetch(answer, { method: 'POST', mode: 'no-cors', body, credentials: 'include' }).then(
      (response) => response.text().then((text) => text || 'nothing'),
      () => 'nothing',
    ),
    'a beacon': (navigator.sendBeacon(answer, new Blob([body], { type: 'text/plain' })), 'nothing'),
    'a log-in': await fetched('/v1/login/password', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"password":"guess guess"}',
    }),
    'a form of text': form('text/plain'),
    'a form': form('application/x-www-form-urlencoded'),
    'a frame': await element('iframe', 'src', `${target}/`),
    'a frame of an answer': await element('iframe', 'src', `${target}/v1/login/ways`),
    'an object': await element('object', 'data', `${target}/`),
    'an image': await element('img', 'src', `${target}/v1/questions`),
    'a script': await element('script', 'src', `${target}/v1/login/ways`),
    events: await within(
      new Promise((resolve) => {
        const source = new EventSource(`${target}/v1/feed`)
        source.addEventListener('open', () => resolve('open'))
        source.addEventListener('message', () => resolve('an event'))
      }),
    ),
    'a WebSocket': await within(
      new Promise((resolve) => {
        const socket = new WebSocket(target.replace('http', 'ws') + '/v1/feed')
        socket.addEventListener('open', () => resolve('open'))
        socket.addEventListener('error', () => resolve('nothing'))
      }),
    ),
    'a window': await opened(),
    'a passkey': await passkey(),
  }
  return { ...got, 'what was told': told }
}
