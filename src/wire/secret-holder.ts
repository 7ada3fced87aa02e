/** On whose behalf a secret of the vault is read. Neither of both: the daemon itself. */
export type SecretHolder = {
  /** Real path. */
  readonly workspace?: string
  readonly role?: string
}
