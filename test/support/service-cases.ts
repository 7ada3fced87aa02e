/**
 * What the presets are tested with, one entry a service. `{}` is the credential: the worthless one as the agent sends it, and the
 * true one as the service sees it; `{NAME}` is the true value of that secret.
 */
export type ServiceCase = {
  readonly service: string
  /** Passes by the preset that reads, or by the only one. */
  readonly read: string
  /** Fields that the agent sends with it, and with the write; `Basic user:{}` is encoded. Nothing for credentials that are written. */
  readonly as?: string
  /** What the service sees of it, where it is not the same. `none` where reads go without a credential. */
  readonly sees?: string
  /** Passes, and carries no credential: what is only redirected to. */
  readonly plain?: string
  /** The preset that reads refuses it, the one that writes lets it through, or asks before. */
  readonly write?: string
  readonly writeAs?: string
  readonly writeSees?: string
  readonly asks?: boolean
  /** A body of the write. */
  readonly form?: string
  /** What no preset of the service lets through. */
  readonly never?: string
  /** A token of the agent's own that goes on as it is: what the service gave it a moment ago. */
  readonly own?: string
}

const BEARER = 'Authorization: Bearer {}'

export const SERVICE_CASES: readonly ServiceCase[] = [
  {
    service: 'github',
    read: 'GET https://api.github.com/repos/acme/app/pulls?state=open',
    as: 'Authorization: token {}',
    plain: 'GET https://codeload.github.com/acme/app/legacy.tar.gz/main?token=signed',
    write: 'POST https://api.github.com/repos/acme/app/issues',
    never: 'PUT https://api.github.com/repos/acme/app/collaborators/someone',
  },
  {
    service: 'github',
    read: 'POST https://github.com/acme/app.git/git-upload-pack',
    as: 'Authorization: Basic x-access-token:{}',
    plain: 'GET https://release-assets.githubusercontent.com/github-production-release-asset/1?sig=x&se=y',
    write: 'POST https://github.com/acme/app.git/git-receive-pack',
    never: 'POST https://api.github.com/repos/acme/app/hooks',
  },
  {
    service: 'github',
    read: 'GET https://github.com/acme/app/info/refs?service=git-upload-pack',
    as: 'Authorization: Basic x-access-token:{}',
    plain: 'GET https://github-cloud.s3.amazonaws.com/alambic/media/1?X-Amz-Signature=a&X-Amz-Credential=b',
    write: 'PUT https://api.github.com/repos/acme/app/contents/.github/workflows/ci.yml',
    writeAs: BEARER,
    asks: true,
    never: 'DELETE https://api.github.com/repos/acme/app',
  },
  {
    service: 'gitlab',
    read: 'GET https://gitlab.com/api/v4/projects/acme%2Fapp/issues',
    as: 'PRIVATE-TOKEN: {}',
    write: 'POST https://gitlab.com/api/v4/projects/acme%2Fapp/merge_requests',
    never: 'GET https://gitlab.com/api/v4/projects/acme%2Fapp/variables.json',
  },
  {
    service: 'gitlab',
    read: 'POST https://gitlab.com/acme/team/app.git/git-upload-pack',
    as: 'Authorization: Basic oauth2:{}',
    write: 'POST https://gitlab.com/acme/team/app.git/git-receive-pack',
    never: 'POST https://gitlab.com/api/v4/projects/acme%2Fapp/hooks',
  },
  {
    service: 'gitlab-registry',
    read: 'GET https://gitlab.com/jwt/auth?service=container_registry&scope=repository:acme/app:pull',
    as: 'Authorization: Basic oauth2:{}',
    plain: 'GET https://cdn.registry.gitlab-static.net/blob?Signature=x&Expires=1',
    write: 'PUT https://registry.gitlab.com/v2/acme/app/manifests/1',
    writeAs: 'Authorization: Bearer own.jwt',
    own: 'GET https://registry.gitlab.com/v2/acme/app/manifests/1',
    never: 'DELETE https://registry.gitlab.com/v2/acme/app/manifests/1',
  },
  {
    service: 'bitbucket',
    read: 'GET https://api.bitbucket.org/2.0/repositories/acme/app/pullrequests',
    as: 'Authorization: Basic me@example.com:{}',
    plain: 'GET https://bbuseruploads.s3.amazonaws.com/x?X-Amz-Signature=a&X-Amz-Credential=b',
    write: 'POST https://bitbucket.org/acme/app.git/git-receive-pack',
    writeAs: 'Authorization: Basic x-bitbucket-api-token-auth:{}',
    never: 'POST https://api.bitbucket.org/2.0/repositories/acme/app/hooks',
  },
  {
    service: 'npm',
    read: 'GET https://mirror.npmjs.org/@acme%2fapp',
    sees: 'none',
    plain: 'POST https://mirror.npmjs.org/-/npm/v1/security/advisories/bulk',
    write: 'PUT https://mirror.npmjs.org/@acme%2fapp',
    writeAs: BEARER,
    never: 'POST https://mirror.npmjs.org/-/npm/v1/tokens',
  },
  {
    service: 'npm',
    read: 'GET https://mirror.npmjs.org/app/-/app-1.0.0.tgz',
    sees: 'none',
    write: 'DELETE https://mirror.npmjs.org/app/-/app-1.0.0.tgz/-rev/3',
    writeAs: BEARER,
    asks: true,
    never: 'PUT https://mirror.npmjs.org/-/user/org.couchdb.user:someone',
  },
  {
    service: 'pypi',
    read: 'GET https://pypi.org/simple/requests/',
    sees: 'none',
    plain: 'GET https://files.pythonhosted.org/packages/1/x.whl',
    write: 'POST https://upload.pypi.org/legacy/',
    writeAs: 'Authorization: Basic __token__:{}',
    never: 'POST https://pypi.org/_/oidc/mint-token',
  },
  {
    service: 'crates',
    read: 'GET https://crates.io/api/v1/crates/serde/1.0.0/download',
    sees: 'none',
    plain: 'GET https://static.crates.io/crates/serde/1.0.0/download',
    write: 'PUT https://crates.io/api/v1/crates/new',
    writeAs: 'Authorization: {}',
    never: 'PUT https://crates.io/api/v1/trusted_publishing/tokens',
  },
  {
    service: 'rubygems',
    read: 'GET https://index.rubygems.org/info/rails',
    sees: 'none',
    plain: 'GET https://rubygems.org/gems/rails-8.0.0.gem',
    write: 'POST https://rubygems.org/api/v1/gems',
    writeAs: 'Authorization: {}',
    never: 'POST https://rubygems.org/api/v1/api_key',
  },
  {
    service: 'maven',
    read: 'GET https://repo.maven.apache.org/maven2/junit/junit/4.13/junit-4.13.pom',
    sees: 'none',
    plain: 'GET https://repo1.maven.org/maven2/junit/junit/4.13/junit-4.13.jar',
    write: 'POST https://central.sonatype.com/api/v1/publisher/upload',
    writeAs: 'Authorization: Bearer YW55Om9uZQ==',
    writeSees: BEARER,
    never: 'POST https://central.sonatype.com/api/v1/users',
  },
  {
    service: 'nuget',
    read: 'GET https://api.nuget.org/v3/index.json',
    sees: 'none',
    plain: 'GET https://globalcdn.nuget.org/packages/x.nupkg',
    write: 'PUT https://www.nuget.org/api/v2/package/',
    writeAs: 'X-NuGet-ApiKey: worthless',
    writeSees: 'X-NuGet-ApiKey: {}',
    never: 'POST https://www.nuget.org/api/v2/package/',
  },
  {
    service: 'go',
    read: 'GET https://proxy.golang.org/github.com/!acme/app/@v/list',
    sees: 'none',
    plain: 'GET https://storage.googleapis.com/proxy-golang-org-prod/1-x.zip?Expires=1&GoogleAccessId=a&Signature=x',
    never: 'GET https://storage.googleapis.com/somebody/else.zip',
  },
  {
    service: 'docker',
    read: 'GET https://auth.docker.io/token?service=registry.docker.io&scope=repository:library/alpine:pull',
    sees: 'none',
    plain: 'GET https://production.cloudflare.docker.com/registry-v2/blob?verify=1',
    write: 'POST https://auth.docker.io/token',
    form: 'grant_type=password&username=me&password={}&scope=repository:acme/app:pull,push',
    own: 'HEAD https://registry-1.docker.io/v2/library/alpine/manifests/3',
    never: 'DELETE https://registry-1.docker.io/v2/acme/app/manifests/1',
  },
  {
    service: 'docker',
    read: 'GET https://registry-1.docker.io/v2/',
    sees: 'none',
    write: 'PUT https://registry-1.docker.io/v2/acme/app/manifests/1',
    writeAs: 'Authorization: Bearer own.jwt',
    never: 'POST https://hub.docker.com/v2/users/login',
  },
  {
    service: 'ghcr',
    read: 'GET https://ghcr.io/v2/acme/app/manifests/1',
    sees: 'none',
    plain: 'GET https://pkg-containers.githubusercontent.com/ghcr1/blobs/sha256:1?se=1&sig=x',
    write: 'POST https://ghcr.io/token',
    form: 'grant_type=password&username=x-access-token&password={}',
    own: 'GET https://ghcr.io/v2/acme/app/blobs/sha256:1',
    never: 'DELETE https://ghcr.io/v2/acme/app/manifests/1',
  },
  {
    service: 'quay',
    read: 'GET https://quay.io/v2/acme/app/manifests/1',
    sees: 'none',
    plain: 'GET https://cdn02.quay.io/quayio-production-s3/sha256/1?X-Amz-Signature=a&X-Amz-Credential=b',
    write: 'POST https://quay.io/v2/acme/app/blobs/uploads/',
    writeAs: 'Authorization: Bearer own.jwt',
    own: 'GET https://quay.io/v2/acme/app/tags/list',
    never: 'POST https://quay.io/api/v1/repository',
  },
  {
    service: 'huggingface',
    read: 'GET https://huggingface.co/meta/model/resolve/main/config.json',
    as: BEARER,
    plain: 'GET https://cas-bridge.xethub.hf.co/x?X-Amz-Signature=a&X-Amz-Credential=b',
    write: 'POST https://huggingface.co/api/models/acme/model/commit/main',
    own: 'GET https://cas-server.xethub.hf.co/v1/reconstructions/1',
    never: 'DELETE https://huggingface.co/api/repos/delete',
  },
  {
    service: 'anthropic',
    read: 'POST https://api.anthropic.com/v1/messages?beta=true',
    as: 'Authorization: Bearer own\nX-Api-Key: worthless',
    sees: 'X-Api-Key: {}',
    never: 'GET https://api.anthropic.com/v1/organizations/api_keys',
  },
  {
    service: 'openai',
    read: 'POST https://api.openai.com/v1/responses',
    as: 'Authorization: Bearer worthless',
    sees: BEARER,
    never: 'GET https://api.openai.com/v1/organization/admin_api_keys',
  },
  {
    service: 'gemini',
    read: 'POST https://generativelanguage.googleapis.com/v1beta/models/gemini-pro:streamGenerateContent?alt=sse',
    as: 'X-Goog-Api-Key: worthless',
    sees: 'X-Goog-Api-Key: {}',
    never: 'POST https://generativelanguage.googleapis.com/v1beta/tunedModels',
  },
  {
    service: 'vertex',
    read: 'POST https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google/models/g:generateContent',
    as: 'Authorization: Bearer worthless',
    sees: BEARER,
    never: 'GET https://aiplatform.googleapis.com/v1/projects/p/locations/global/datasets',
  },
  {
    service: 'azure-openai',
    read: 'POST https://resource.openai.azure.com/openai/deployments/d/chat/completions?api-version=1',
    as: 'api-key: worthless',
    sees: 'api-key: {}',
    never: 'POST https://other.openai.azure.com/openai/deployments/d/chat/completions',
  },
  {
    service: 'bedrock',
    read: 'POST https://bedrock-runtime.us-east-1.amazonaws.com/model/anthropic.claude-v1%3A0/invoke',
    as: 'Authorization: Bearer worthless',
    sees: BEARER,
    never: 'POST https://bedrock.us-east-1.amazonaws.com/model-invocation-job',
  },
  model('openrouter', 'POST https://openrouter.ai/api/v1/chat/completions', 'GET https://openrouter.ai/api/v1/keys'),
  model('mistral', 'POST https://api.mistral.ai/v1/chat/completions', 'DELETE https://api.mistral.ai/v1/files/1'),
  model('groq', 'POST https://api.groq.com/openai/v1/chat/completions', 'POST https://api.groq.com/other'),
  model('deepseek', 'POST https://api.deepseek.com/chat/completions', 'DELETE https://api.deepseek.com/x'),
  model('xai', 'POST https://api.x.ai/v1/chat/completions', 'POST https://management-api.x.ai/auth/api-keys'),
  model('together', 'POST https://api.together.xyz/v1/chat/completions', 'DELETE https://api.together.ai/v1/files/1'),
  model('fireworks', 'POST https://api.fireworks.ai/inference/v1/chat/completions', 'POST https://api.fireworks.ai/v1/accounts/a/apiKeys'),
  model('cohere', 'POST https://api.cohere.com/v2/chat', 'DELETE https://api.cohere.com/v1/datasets/1'),
  model('perplexity', 'POST https://api.perplexity.ai/chat/completions', 'DELETE https://api.perplexity.ai/x'),
]

function model(service: string, read: string, never: string): ServiceCase {
  return { service, read, as: 'Authorization: Bearer worthless', sees: BEARER, never }
}
