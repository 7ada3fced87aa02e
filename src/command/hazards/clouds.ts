import { list, row, type ProgramTable } from './table.ts'

/** terraform, tofu, terragrunt. Providers are programs, and every form that loads them runs them. */
export const TERRAFORM: ProgramTable = {
  names: ['terraform', 'tofu', 'terragrunt', 'opentofu', 'packer', 'pulumi', 'cdk', 'cdktf'],
  style: 'exact',
  operandsAreNames: true,
  rows: [
    row('X', 'init get', 'downloads and runs providers and modules'),
    row('X', 'plan apply destroy import refresh console test query', 'runs providers and programs that the configuration names'),
    row(
      'W',
      'state/mv state/rm state/pull state/push state/replace-provider taint untaint force-unlock workspace/new workspace/delete workspace/select login logout up preview build deploy',
      'changes what is recorded or signed in',
    ),
    row('R', 'output show', 'prints values, with the secrets in them'),
    row('X', 'validate providers/mirror providers/lock providers/schema', 'loads programs of providers'),
    row('C', '-chdir -plugin-dir -from-module -backend-config -config', 'takes configuration or programs from another place'),
    row('R', '-var-file -var -json', 'reads any file, or prints secrets'),
    row('W', '-out -state -state-out -backup -generate-config-out -write', 'writes files'),
    row('W', 'fmt', 'rewrites files', { unless: '-check -write=false' }),
    row('X', '-auto-approve -replace -target -destroy -lock', 'changes things unasked'),
    row('X', 'run run-all hclfmt exec stack catalog scaffold', 'runs other programs'),
  ],
  readOnly: list('version fmt providers state/list graph workspace/list workspace/show -version --version -help'),
}

const SECRETS = 'prints what signs in, or another secret'

/** AWS Command Line Interface. */
export const AWS: ProgramTable = {
  names: ['aws'],
  style: 'gnu',
  valuedLong: list('--region --output --query --max-items --page-size'),
  operandsAreNames: true,
  rows: [
    row(
      'R',
      'secretsmanager/get-secret-value secretsmanager/batch-get-secret-value ssm/get-parameter ssm/get-parameters ssm/get-parameters-by-path ecr/get-login-password ecr/get-login ecr/get-authorization-token sts/assume-role sts/assume-role-with-saml sts/assume-role-with-web-identity sts/get-session-token sts/get-federation-token iam/create-access-key iam/get-credential-report kms/decrypt kms/generate-data-key lambda/get-function codeartifact/get-authorization-token rds/generate-db-auth-token redshift/get-cluster-credentials sso/get-role-credentials cognito-identity/get-credentials-for-identity ec2/get-password-data eks/get-token lightsail/get-instance-access-details configure/get configure/export-credentials',
      SECRETS,
    ),
    row('W', 's3api/get-object s3api/select-object-content glacier/get-job-output', 'writes a file'),
    row('N', 's3/cp s3/sync s3/mv s3/rm s3/mb s3/rb s3/presign s3/website', 'copies files out or in, or deletes'),
    row('R', '--cli-input-json --cli-input-yaml', 'takes everything from a file'),
    row('R', '', 'is replaced by the content of a file or address', { operand: /^(?:file|fileb|https?):\/\//i }),
    row('N', '--endpoint-url', 'sends a signed request to another host'),
    row('N', '--no-verify-ssl --no-sign-request --ca-bundle', 'trusts any other side'),
    row('X', '--profile', 'takes another profile, which may name a program to run'),
    row('W', '--outfile --outputs-file', 'writes a file'),
    row('R', '--debug', 'prints signed requests'),
    row(
      'X',
      'ssm/start-session ssm/send-command ssm/resume-session ecs/execute-command ec2-instance-connect emr/ssh emr/socks emr/put emr/get cloudshell/create-session',
      'runs commands elsewhere',
    ),
    row(
      'C',
      'configure/set configure/import configure/sso configure/add-model codeartifact/login eks/update-kubeconfig alias history login logout sso/login sso/logout',
      'changes what programs here run and trust',
    ),
    row(
      'N',
      'cloudformation/package cloudformation/deploy lambda/invoke lambda/update-function-code deploy/push',
      'sends files out, or runs code elsewhere',
    ),
  ],
  otherwise: { letter: 'N', why: 'changes something of the account' },
  readOnly: list(
    '*/describe-* */list-* */get-* */lookup-* */search-* */query */scan */head-* */batch-get-* s3/ls logs/tail logs/filter-log-events help --version configure/list configure/list-profiles',
  ),
  environment: { AWS_PAGER: '', PAGER: 'cat' },
}

/** Google Cloud's client. */
export const GCLOUD: ProgramTable = {
  names: ['gcloud', 'gsutil', 'bq'],
  style: 'gnu',
  operandsAreNames: true,
  valuedLong: list('--project --format --filter --limit --region --zone --sort-by'),
  rows: [
    row(
      'R',
      'auth/print-access-token auth/print-identity-token auth/application-default secrets/versions/access auth/print-refresh-token sql/generate-login-token iam/service-accounts/keys',
      SECRETS,
    ),
    row(
      'X',
      'compute/ssh compute/scp compute/start-iap-tunnel compute/connect-to-serial-port app/instances/ssh cloud-shell alpha/cloud-shell alpha/interactive beta/interactive interactive',
      'runs commands elsewhere',
    ),
    row(
      'N',
      'builds/submit functions/deploy run/deploy app/deploy storage/cp storage/rsync storage/mv storage/rm storage/cat cp rsync mv rm cat',
      'sends files out or fetches them, runs code elsewhere',
    ),
    row(
      'C',
      'components config/set config/unset config/configurations auth/login auth/activate-service-account auth/revoke auth/configure-docker container/clusters/get-credentials init',
      'changes what the client runs and who it is',
    ),
    row(
      'C',
      '--flags-file --configuration --impersonate-service-account --access-token-file --account --credential-file-override',
      'adds options from a file, or asks as somebody else',
    ),
    row('R', '--log-http --verbosity', 'prints signed requests'),
  ],
  otherwise: { letter: 'N', why: 'changes something of the account' },
  readOnly: list(
    'config/list projects/list projects/describe info version --version */list */describe */*/list */*/describe */*/*/list */*/*/describe logging/read ls help',
  ),
}

/** 1Password's client, and what else keeps secrets: the vault has providers for them. */
export const SECRET_STORES: ProgramTable = {
  names: [
    'op',
    'bw',
    'lpass',
    'pass',
    'gopass',
    'vault',
    'bao',
    'secret-tool',
    'keyctl',
    'doppler',
    'infisical',
    'sops',
    'age',
    'chamber',
    'keepassxc-cli',
    'kwallet-query',
    'gcloud-secrets',
  ],
  style: 'gnu',
  operandsAreNames: true,
  rows: [
    row('R', 'read item/get document/get inject signin', SECRETS),
    row('X', 'run plugin', 'runs a program with secrets'),
    row(
      'W',
      'item/create item/edit item/delete document/create document/edit document/delete events-api service-account',
      'changes secrets',
    ),
    row('W', '-o --out-file --output', 'writes a file'),
  ],
  otherwise: { letter: 'R', why: 'has to do with secrets: the vault has providers for that' },
  readOnly: list('whoami vault/list item/list --version version status'),
  tier: 'T2',
}

/** security(1) of macOS. */
export const SECURITY: ProgramTable = {
  names: ['security'],
  style: 'exact',
  operandsAreNames: true,
  rows: [
    row('R', 'find-generic-password find-internet-password find-key dump-keychain export', 'shows passwords or keys'),
    row('R', '-w -g -d', 'shows passwords', { on: 'find-generic-password find-internet-password dump-keychain' }),
    row(
      'W',
      'add-generic-password add-internet-password add-certificates add-trusted-cert delete-generic-password delete-internet-password delete-certificate delete-keychain import unlock-keychain set-key-partition-list set-keychain-password create-keychain default-keychain authorizationdb remove-trusted-cert set-generic-password-partition-list',
      'changes keys, or what is trusted',
    ),
    row('X', 'execute-with-privileges authorize cms smartcard', 'runs a program with the rights of another'),
    row('X', '-i -p', 'takes commands from its input', { on: '@globals' }),
  ],
  otherwise: { letter: 'R', why: 'has to do with keys' },
  readOnly: list('list-keychains find-certificate verify-cert help'),
  tier: 'T2',
}
