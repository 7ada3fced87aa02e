// With axe-core loaded before it: what it finds, a line each. A theme has other colours and nothing else, so that for a second one it is
// enough to look at these.
globalThis.violationsHere = (ofColours) =>
  globalThis.axe
    .run(document, {
      preload: false,
      resultTypes: ['violations'],
      ...(ofColours ? { runOnly: ['color-contrast', 'link-in-text-block'] } : {}),
    })
    .then(({ violations }) =>
      violations.flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary = '' }) => `${id}: ${String(target)}: ${failureSummary}`)),
    )
