export { openSecrets, type SecretDeclaration, type Secrets } from './secrets.ts'
export { writeCredential, type CredentialPlace } from './place.ts'
