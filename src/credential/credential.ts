export { credentialFiles, type ReadyFile } from './files.ts'
export { openSecrets, type Secrets } from './secrets.ts'
export { fieldOf, valueFor } from './place.ts'
