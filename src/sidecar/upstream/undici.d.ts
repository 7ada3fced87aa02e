declare module 'undici/lib/dispatcher/pool.js' {
  import { Pool } from 'undici'
  export default Pool
}
declare module 'undici/lib/core/errors.js' {
  import { errors } from 'undici'
  export default errors
}
