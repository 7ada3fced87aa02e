export { openSecrets, type Secrets } from './secrets.ts'
export { fieldOf, valueFor } from './place.ts'
