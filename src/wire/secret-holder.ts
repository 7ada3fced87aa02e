/** On whose behalf a secret of the vault is read. Neither of both: the daemon itself. */
export type SecretHolder = {
  /** Real path. */
  readonly workspace?: string
  readonly role?: string
  /** Id of the session that it is for. */
  readonly session?: string
  /** What it is used for: absent where nobody uses it, as when it is looked whether it is there. */
  readonly use?: string
}
