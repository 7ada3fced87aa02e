// With axe-core loaded before it: what it finds, a line each.
globalThis.axe
  .run()
  .then(({ violations }) =>
    violations.flatMap(({ id, nodes }) => nodes.map(({ target, failureSummary = '' }) => `${id}: ${String(target)}: ${failureSummary}`)),
  )
