/** As compose.yaml has it. A test holds both together. */
export const AGENT_HOME = '/home/agent'
export const WORKSPACE = '/workspace'

const PROXY = 'http://sallyport:3128'
const DIRECT = 'localhost,127.0.0.1,::1,sallyport'
/** The image's roots and ours. */
const BUNDLE = '/sallyport/bundle.crt'
/** Ours alone. */
const AUTHORITY = '/sallyport/ca.crt'

/** These replace a program's roots. SSL_CERT_DIR stays unset: the directory would be lost to Go and OpenSSL. */
const REPLACING = [
  'SSL_CERT_FILE',
  'CURL_CA_BUNDLE',
  'REQUESTS_CA_BUNDLE',
  'GIT_SSL_CAINFO',
  'PIP_CERT',
  'CARGO_HTTP_CAINFO',
  'AWS_CA_BUNDLE',
  'CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE',
  'NIX_SSL_CERT_FILE',
  'YARN_HTTPS_CA_FILE_PATH',
  'npm_config_cafile',
  'COMPOSER_CAFILE',
  'BUNDLE_SSL_CA_CERT',
  'HEX_CACERTS_PATH',
  'GRPC_DEFAULT_SSL_ROOTS_FILE_PATH',
  'PGSSLROOTCERT',
]
/** These add to a program's roots. */
const ADDING = ['NODE_EXTRA_CA_CERTS', 'DENO_CERT', 'CODEX_CA_CERTIFICATE']

/** What every agent has: its way out, its trust, its lease. `proxyPassword`: the lease's short form, where the policy wants it shown. */
export function agentEnvironment(lease: string, proxyPassword: string | undefined): Record<string, string> {
  const proxy = proxyPassword === undefined ? PROXY : `http://agent:${proxyPassword}@sallyport:3128`
  return {
    HOME: AGENT_HOME,
    // curl reads http_proxy in lower case only (httpoxy), others only upper case.
    ...Object.fromEntries(
      ['http_proxy', 'https_proxy', 'all_proxy', 'HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY'].map((name) => [name, proxy]),
    ),
    no_proxy: DIRECT,
    NO_PROXY: DIRECT,
    NODE_USE_ENV_PROXY: '1',
    SALLYPORT_URL: 'http://sallyport:7070',
    SALLYPORT_LEASE: lease,
    ...Object.fromEntries(REPLACING.map((name) => [name, BUNDLE])),
    ...Object.fromEntries(ADDING.map((name) => [name, AUTHORITY])),
    UV_SYSTEM_CERTS: 'true',
    JAVA_TOOL_OPTIONS: [
      '-Djavax.net.ssl.trustStore=/sallyport/truststore.p12',
      '-Djavax.net.ssl.trustStorePassword=changeit',
      '-Djavax.net.ssl.trustStoreType=PKCS12',
      '-Dhttp.proxyHost=sallyport',
      '-Dhttp.proxyPort=3128',
      '-Dhttps.proxyHost=sallyport',
      '-Dhttps.proxyPort=3128',
      '-Dhttp.nonProxyHosts=localhost|127.*|sallyport',
    ].join(' '),
  }
}

/** The same for a container beside the agent: the gate knows it by its network, and it has no lease to show to anybody. */
export function siblingEnvironment(): Record<string, string> {
  const { SALLYPORT_LEASE: _, ...environment } = agentEnvironment('', undefined)
  return environment
}

/** Their names: none of them is for a policy or a harness to set. */
export const OWN_VARIABLES: ReadonlySet<string> = new Set(Object.keys(agentEnvironment('', undefined)))
