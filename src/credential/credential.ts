export { openSecrets, type Secrets } from './secrets.ts'
export { writeCredential } from './place.ts'
