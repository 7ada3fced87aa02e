/**
 * Addresses that egress refuses, and what each is called in the reason. State of the IANA special-purpose registries
 * for IPv4 and IPv6 of 2026-07-18, with the multicast registries and the providers' own documents for metadata.
 * All that is not globally reachable is here, and what is reachable but infrastructure (AS112, AMT, anycast services).
 */
export type AddressClass = (typeof TABLE)[number][0] | 'metadata' | 'isatap' | 'unassigned' | 'own'

/** More specific rows come first: the first row that holds an address names it. */
export const TABLE = [
  ['broadcast', '255.255.255.255/32', 'RFC 8190'],
  ['unspecified', '0.0.0.0/8', 'RFC 1122'],
  ['private', '10.0.0.0/8', 'RFC 1918'],
  ['cgnat', '100.64.0.0/10', 'RFC 6598'],
  ['loopback', '127.0.0.0/8', 'RFC 1122'],
  ['link-local', '169.254.0.0/16', 'RFC 3927'],
  ['private', '172.16.0.0/12', 'RFC 1918'],
  ['ietf', '192.0.0.0/24', 'RFC 6890; DS-Lite, dummy, PCP and TURN anycast, NAT64 discovery'],
  ['documentation', '192.0.2.0/24', 'RFC 5737'],
  ['as112', '192.31.196.0/24', 'RFC 7535'],
  ['amt', '192.52.193.0/24', 'RFC 7450'],
  ['sixtofour', '192.88.99.0/24', 'RFC 7526'],
  ['private', '192.168.0.0/16', 'RFC 1918'],
  ['as112', '192.175.48.0/24', 'RFC 7534'],
  ['benchmark', '198.18.0.0/15', 'RFC 2544'],
  ['documentation', '198.51.100.0/24', 'RFC 5737'],
  ['documentation', '203.0.113.0/24', 'RFC 5737'],
  ['multicast', '224.0.0.0/4', 'RFC 5771'],
  ['reserved', '240.0.0.0/4', 'RFC 1112 §4'],
  // Public-looking service networks of IBM Cloud, which lead into its private side.
  ['private', '161.26.0.0/16', 'IBM Cloud services'],
  ['private', '166.8.0.0/14', 'IBM Cloud services'],

  ['unspecified', '::/128', 'RFC 4291'],
  ['loopback', '::1/128', 'RFC 4291'],
  ['v4-compatible', '::/96', 'RFC 4291 §2.5.5.1'],
  ['v4-mapped', '::ffff:0:0/96', 'RFC 4291 §2.5.5.2'],
  ['v4-translated', '::ffff:0:0:0/96', 'RFC 2765'],
  ['nat64', '64:ff9b::/96', 'RFC 6052'],
  ['nat64', '64:ff9b:1::/48', 'RFC 8215'],
  ['discard', '100::/64', 'RFC 6666'],
  ['discard', '100:0:0:1::/64', 'RFC 9780'],
  ['teredo', '2001::/32', 'RFC 4380'],
  ['benchmark', '2001:2::/48', 'RFC 5180'],
  ['amt', '2001:3::/32', 'RFC 7450'],
  ['as112', '2001:4:112::/48', 'RFC 7535'],
  ['orchid', '2001:10::/28', 'RFC 4843'],
  ['orchid', '2001:20::/28', 'RFC 7343'],
  ['drip', '2001:30::/28', 'RFC 9374'],
  ['ietf', '2001::/23', 'RFC 2928; PCP, TURN and DNS-SD anycast'],
  ['documentation', '2001:db8::/32', 'RFC 3849'],
  ['sixtofour', '2002::/16', 'RFC 3056'],
  ['as112', '2620:4f:8000::/48', 'RFC 7534'],
  ['documentation', '3fff::/20', 'RFC 9637'],
  ['srv6', '5f00::/16', 'RFC 9602'],
  ['unique-local', 'fc00::/7', 'RFC 4193'],
  ['link-local', 'fe80::/10', 'RFC 4291'],
  ['site-local', 'fec0::/10', 'RFC 3879'],
  ['multicast', 'ff00::/8', 'RFC 4291'],
] as const

/** IANA gives out global unicast addresses from here only (RFC 3587); all the rest is `unassigned`. */
export const GLOBAL_UNICAST = '2000::/3'

/**
 * Metadata services, platform endpoints and ways to the host. They lie in refused ranges (but for Azure's), and are
 * named apart so that an `addresses` entry for the range around them never opens them: only the exact address does.
 */
export const METADATA = [
  ['169.254.169.254/32', 'instance metadata of most clouds'],
  ['169.254.169.253/32', 'AWS resolver'],
  ['169.254.169.123/32', 'AWS time'],
  ['169.254.169.250/31', 'AWS key management, Rancher metadata'],
  ['169.254.170.2/32', 'AWS ECS task credentials'],
  ['169.254.170.23/32', 'AWS EKS pod identity'],
  ['169.254.100.0/24', 'AWS Lambda runtime'],
  ['169.254.129.0/24', 'Azure App Service identity'],
  ['168.63.129.16/32', 'Azure WireServer'],
  ['169.254.0.2/32', 'Oracle Cloud boot volume'],
  ['169.254.0.23/32', 'Tencent Cloud metadata'],
  ['169.254.10.10/32', 'Tencent Cloud metadata'],
  ['169.254.42.42/32', 'Scaleway metadata'],
  ['169.254.1.2/32', 'Podman host'],
  ['192.0.0.192/32', 'Oracle Cloud Classic metadata'],
  ['100.100.100.200/32', 'Alibaba Cloud metadata'],
  ['100.100.2.136/32', 'Alibaba Cloud resolver'],
  ['100.100.2.138/32', 'Alibaba Cloud resolver'],
  ['100.96.0.96/32', 'Volcengine metadata'],
  ['127.0.0.11/32', 'Docker resolver'],
  ['172.17.0.1/32', 'Docker host'],
  ['192.168.65.254/32', 'Docker Desktop host'],
  ['10.0.2.2/32', 'slirp4netns host'],
  ['192.168.5.2/32', 'Lima host'],
  ['0.250.250.254/32', 'OrbStack host'],

  ['fd00:ec2::/32', 'AWS services'],
  ['fd20:ce::254/128', 'Google Cloud metadata'],
  ['fd00:100::100:200/128', 'Alibaba Cloud metadata'],
  ['fd00:c1::a9fe:a9fe/128', 'Oracle Cloud metadata'],
  ['fe80::a9fe:a9fe/128', 'OpenStack metadata'],
  ['fd00:42::42/128', 'Scaleway metadata'],
  ['fd00:a9fe:a9fe::1/128', 'Linode metadata'],
  ['fdaa::/16', 'Fly.io private network'],
] as const

/** Names that are refused whatever they resolve to, each with all names below it. */
export const SPECIAL_NAMES: ReadonlySet<string> = new Set([
  'localhost',
  'metadata',
  'metadata.google.internal',
  'metadata.goog',
  'instance-data',
  'instance-data.ec2.internal',
  'metadata.tencentyun.com',
  'metadata.platformequinix.com',
  'api.metadata.cloud.ibm.com',
  'internal', // ICANN's reservation for private use
  'local', // RFC 6762
  'lan',
  'home.arpa', // RFC 8375
  'svc',
  'cluster.local',
  'onion', // RFC 7686
  'test', // RFC 6761
  'invalid',
  'example',
  'in-addr.arpa',
  'ip6.arpa',
  // Rebinding helpers: any address can be spelled as a name below these.
  'nip.io',
  'sslip.io',
  'xip.io',
  'lvh.me',
  'localtest.me',
])
