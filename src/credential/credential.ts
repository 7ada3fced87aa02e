export { createBudgets, type Budgets, type Meter } from './budgets.ts'
export {
  needsBodyHash,
  payloadHashOf,
  readAwsSignature,
  signAws,
  type AwsKeys,
  type AwsRequest,
  type AwsSignature,
} from './aws-signature.ts'
export { credentialFiles, type ReadyFile } from './files.ts'
export { openSecrets, type Secrets } from './secrets.ts'
export { fieldOf, valueFor } from './place.ts'
export { createTokenExchanges, type ExchangeSecrets, type TokenAnswer, type TokenExchanges, type TokenPost } from './token-exchange.ts'
