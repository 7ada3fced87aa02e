export { setInBody, swapInBody } from './body.ts'
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
export { describePlace, isListed, type FoundPlace, type Head } from './head-places.ts'
export { applyCredential, swapInHead, type Credential, type HeadSwap, type WrittenHead } from './place.ts'
export { createPlaceholders, type Found, type Placeholders } from './placeholders.ts'
export { createTokenExchanges, type ExchangeSecrets, type TokenAnswer, type TokenExchanges, type TokenPost } from './token-exchange.ts'
